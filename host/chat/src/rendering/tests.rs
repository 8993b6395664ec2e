//! Renderings with the authors of their passages.
