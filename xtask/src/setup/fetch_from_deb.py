"""Fetches a package of Debian, verifies its hash and writes one of its files: URL SHA256 MEMBER FILE.

Reads the archive itself, since `dpkg-deb` exists on Debian's relatives only.
"""

import hashlib
import io
import os
import sys
import tarfile
import urllib.request

url, wanted, member, file = sys.argv[1:]
with urllib.request.urlopen(url, timeout=60) as answer:
    package = answer.read()
found = hashlib.sha256(package).hexdigest()
if found != wanted:
    sys.exit(f"cannot use {url}: its SHA-256 is {found}, and {wanted} is pinned")

# An `ar` archive: a magic of 8 bytes, then members with a head of 60 bytes, each padded to an even length.
position, parts = 8, {}
while position < len(package):
    head = package[position : position + 60]
    size = int(head[48:58])
    parts[head[:16].decode().strip().rstrip("/")] = package[position + 60 : position + 60 + size]
    position += 60 + size + size % 2
data = next(content for name, content in parts.items() if name.startswith("data.tar"))
with tarfile.open(fileobj=io.BytesIO(data)) as archive:
    content = archive.extractfile(f"./{member}").read()
temporary = f"{file}.{os.getpid()}.tmp"
with open(temporary, "wb") as output:
    output.write(content)
os.chmod(temporary, 0o755)
os.rename(temporary, file)
