//! What crosses borders: whole runs, hostile guests, protocols.
