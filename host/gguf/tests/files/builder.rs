//! A GGUF file, part by part, right or wrong.

use std::io::Cursor;
use std::path::Path;

use gymkhana_gguf::GgufModel;

/// A value with its type.
#[derive(Clone)]
pub enum Value {
    U32(u32),
    F32(f32),
    Switch(bool),
    Text(&'static str),
    Texts(Vec<&'static str>),
    Numbers(Vec<i32>),
    /// Type and bytes.
    Raw(u32, Vec<u8>),
}

/// A tensor: name, sizes with the innermost first, type, offset, bytes.
pub type Tensor = (String, Vec<u64>, u32, u64, usize);

/// Header and tensors of a file.
#[derive(Clone)]
pub struct Builder {
    pub magic: [u8; 4],
    pub version: u32,
    pub keys: Vec<(String, Value)>,
    pub tensors: Vec<Tensor>,
    /// Declared numbers of tensors and keys, if they differ from the real ones.
    pub counts: Option<[u64; 2]>,
}

/// A model of the architecture `llama` with heads of width 4, whose tensors are all of type F32.
pub fn llama() -> Builder {
    let tokens = vec!["<unk>", "<s>", "</s>", "a", "b", "ab"];
    let mut builder = Builder { magic: *b"GGUF", version: 3, keys: vec![], tensors: vec![], counts: None };
    for (key, value) in [
        ("general.architecture", Value::Text("llama")),
        ("llama.block_count", Value::U32(1)),
        ("llama.context_length", Value::U32(64)),
        ("llama.embedding_length", Value::U32(8)),
        ("llama.feed_forward_length", Value::U32(16)),
        ("llama.attention.head_count", Value::U32(2)),
        ("llama.attention.head_count_kv", Value::U32(1)),
        ("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5)),
        ("tokenizer.ggml.model", Value::Text("gpt2")),
        ("tokenizer.ggml.pre", Value::Text("smollm")),
        ("tokenizer.ggml.tokens", Value::Texts(tokens)),
        ("tokenizer.ggml.token_type", Value::Numbers(vec![2, 3, 3, 1, 1, 1])),
        ("tokenizer.ggml.merges", Value::Texts(vec!["a b"])),
        ("tokenizer.ggml.bos_token_id", Value::U32(1)),
        ("tokenizer.ggml.eos_token_id", Value::U32(2)),
    ] {
        builder.keys.push((key.to_owned(), value));
    }
    for (name, shape) in [
        ("token_embd.weight", vec![8, 6]),
        ("output_norm.weight", vec![8]),
        ("blk.0.attn_norm.weight", vec![8]),
        ("blk.0.attn_q.weight", vec![8, 8]),
        ("blk.0.attn_k.weight", vec![8, 4]),
        ("blk.0.attn_v.weight", vec![8, 4]),
        ("blk.0.attn_output.weight", vec![8, 8]),
        ("blk.0.ffn_norm.weight", vec![8]),
        ("blk.0.ffn_gate.weight", vec![8, 16]),
        ("blk.0.ffn_up.weight", vec![8, 16]),
        ("blk.0.ffn_down.weight", vec![16, 8]),
    ] {
        builder.add(name, shape);
    }
    builder
}

impl Builder {
    /// Adds a float32 tensor after the others.
    pub fn add(&mut self, name: &str, shape: Vec<u64>) {
        let end = self.tensors.last().map_or(0, |(.., offset, bytes)| offset + *bytes as u64);
        let bytes = shape.iter().product::<u64>() as usize * 4;
        self.tensors.push((name.to_owned(), shape, 0, end.next_multiple_of(32), bytes));
    }

    /// The same file with another value under a key, which is added if it is missing.
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.keys.retain(|(own, _)| own != key);
        self.keys.push((key.to_owned(), value));
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        self.keys.retain(|(own, _)| own != key);
        self
    }

    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|(own, ..)| own == name).unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.magic.to_vec();
        bytes.extend(self.version.to_le_bytes());
        let counts = self.counts.unwrap_or([self.tensors.len() as u64, self.keys.len() as u64]);
        bytes.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
        for (key, value) in &self.keys {
            text(&mut bytes, key);
            value.write(&mut bytes);
        }
        for (name, shape, kind, offset, _) in &self.tensors {
            text(&mut bytes, name);
            bytes.extend((shape.len() as u32).to_le_bytes());
            bytes.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
        let start = bytes.len().next_multiple_of(32);
        for (.., offset, size) in &self.tensors {
            let end = start + *offset as usize + size;
            bytes.resize(end.max(bytes.len()), 0);
        }
        bytes
    }

    /// The reason why the file is refused.
    pub fn refused(&self) -> String {
        refused(&self.bytes())
    }

    pub fn read(&self) -> GgufModel<Cursor<Vec<u8>>> {
        GgufModel::read(Cursor::new(self.bytes()), Path::new("m.gguf")).unwrap()
    }
}

pub fn refused(bytes: &[u8]) -> String {
    let message = GgufModel::read(Cursor::new(bytes), Path::new("m.gguf")).err().unwrap().to_string();
    let (what, hint) = message.split_once("\nhint: ").unwrap();
    assert!(!hint.is_empty());
    what.strip_prefix("cannot import `m.gguf`: ").unwrap().to_owned()
}

impl Value {
    fn write(&self, bytes: &mut Vec<u8>) {
        let mut kind = |kind: u32| bytes.extend(kind.to_le_bytes());
        match self {
            Self::U32(number) => {
                kind(4);
                bytes.extend(number.to_le_bytes());
            }
            Self::F32(number) => {
                kind(6);
                bytes.extend(number.to_le_bytes());
            }
            Self::Switch(on) => {
                kind(7);
                bytes.push(u8::from(*on));
            }
            Self::Text(own) => {
                kind(8);
                text(bytes, own);
            }
            Self::Texts(texts) => {
                kind(9);
                bytes.extend(8_u32.to_le_bytes());
                bytes.extend((texts.len() as u64).to_le_bytes());
                texts.iter().for_each(|own| text(bytes, own));
            }
            Self::Numbers(numbers) => {
                kind(9);
                bytes.extend(5_u32.to_le_bytes());
                bytes.extend((numbers.len() as u64).to_le_bytes());
                bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            }
            Self::Raw(own, content) => {
                kind(*own);
                bytes.extend(content);
            }
        }
    }
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
