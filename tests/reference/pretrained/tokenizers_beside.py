"""Imported tokenizers beside llama.cpp, and beside SentencePiece for the kind `llama`."""
import io
import json

import gguf
import numpy as np
import sentencepiece
from tokenizers import Tokenizer

import llama_cpp
import texts

# Values of `tokenizer.ggml.pre`, of each row of the import's table.
SPLITTINGS = ["default", "gpt-2", "smollm", "qwen2", "llama-bpe", "dbrx"]
WIDTH, CONTEXT = 32, 64
PIECES = 600


def fields(file):
    """The keys of a file."""
    reader = gguf.GGUFReader(file)
    return {name: field.contents() for name, field in reader.fields.items()}


def write_tiny(path, rows, write_tokenizer):
    """A model of one layer with `rows` tokens."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    write_tokenizer(writer)
    matrices = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
    shapes = {f"blk.0.{name}.weight": (WIDTH, WIDTH) for name in matrices}
    shapes |= {name: (WIDTH,) for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight")}
    for name, shape in {"token_embd.weight": (rows, WIDTH), **shapes}.items():
        writer.add_tensor(name, np.ones(shape, np.float32))
    for write in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, write)()


def write_split(path, known, splitting):
    """The tokenizer of a file with another splitting of texts."""
    def write(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(splitting)
        writer.add_token_list(known["tokenizer.ggml.tokens"])
        writer.add_token_types(known["tokenizer.ggml.token_type"])
        writer.add_token_merges(known["tokenizer.ggml.merges"])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
    write_tiny(path, len(known["tokenizer.ggml.tokens"]), write)


def train_pieces():
    """A SentencePiece model of the texts, with scores and bytes."""
    model = io.BytesIO()
    corpus = [part for text in texts.texts(400, seed=8) for part in text.splitlines() if part.strip()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, vocab_size=PIECES, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, hard_vocab_limit=False,
        character_coverage=0.98, minloglevel=2, num_threads=1)
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def write_pieces(path, pieces):
    """A file with a SentencePiece model, as llama.cpp's conversion writes it."""
    def kind(index):
        kinds = [("is_unknown", 2), ("is_control", 3), ("is_unused", 5), ("is_byte", 6)]
        return next((number for name, number in kinds if getattr(pieces, name)(index)), 1)

    def write(writer):
        ids = range(pieces.get_piece_size())
        writer.add_tokenizer_model("llama")
        writer.add_tokenizer_pre("default")
        writer.add_token_list([pieces.id_to_piece(index) for index in ids])
        writer.add_token_scores([pieces.get_score(index) for index in ids])
        writer.add_token_types([kind(index) for index in ids])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_unk_token_id(0)
    write_tiny(path, pieces.get_piece_size(), write)


def compare(name, own, other, given):
    """Fails at the first text with other tokens."""
    for text, left, right in zip(given, own, other, strict=True):
        assert left == right, f"{name}: {text!r} has the tokens {left}, not {right}"
    print(f"tokenizer {name}: tokens of {len(given)} texts are equal", flush=True)


def encoded(folder, given):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in given]


def same_ids(folder, tokens):
    """Every token has its place in the file as id."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    wrong = [(place, token) for place, token in enumerate(tokens) if tokenizer.token_to_id(token) != place]
    assert not wrong, wrong[:5]


def composed(given):
    """Texts that Unicode's composition leaves as they are: models of the kind qwen2 compose, llama.cpp does not."""
    import unicodedata
    return [text for text in given if unicodedata.normalize("NFC", text) == text]


def check(file, folder, scratch, import_model):
    """All comparisons; `import_model(file, folder)` imports a file."""
    given, known = texts.texts(), fields(file)
    chats = given + texts.CHATS
    compare("of the model", encoded(folder, chats), llama_cpp.tokens(file, chats), chats)
    same_ids(folder, known["tokenizer.ggml.tokens"])
    for splitting in SPLITTINGS:
        tiny, out = scratch / f"{splitting}.gguf", scratch / splitting
        write_split(tiny, known, splitting)
        import_model(tiny, out)
        shown = composed(given) if splitting == "qwen2" else given
        compare(splitting, encoded(out, shown), llama_cpp.tokens(tiny, shown), shown)
    pieces = train_pieces()
    tiny, out = scratch / "pieces.gguf", scratch / "pieces"
    write_pieces(tiny, pieces)
    import_model(tiny, out)
    own = encoded(out, given)
    compare("SentencePiece beside llama.cpp", own, llama_cpp.tokens(tiny, given), given)
    compare("SentencePiece beside its library", own, [pieces.encode(text) for text in given], given)
    first = json.loads((out / "tokenizer.json").read_text())["post_processor"]["special_tokens"]
    assert list(first) == ["<s>"], first
