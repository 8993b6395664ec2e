#!/usr/bin/env bash
# Checks that README's two commands do all set-up: in a new Debian with an empty home, as a user without rights.
#
#   sudo xtask/fresh-machine.sh DIR [demo|test]...     # 'demo' and 'test' by default
#
# DIR is a new folder for the system; it is removed at the end unless KEEP=1. Needs root, `debootstrap`, and this
# machine's rustup with the toolchain, which are copied. The download cache of cargo is copied too.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
root=${1:?"usage: $0 DIR [demo|test]..."}
shift
commands=${*:-demo test}
user=newcomer
home=/home/$user
[ ! -e "$root" ] || { echo "error: \`$root\` exists; name a new folder" >&2; exit 2; }

say() { echo "==> fresh machine: $*" >&2; }
inside() { # as the user, with nothing of this shell's environment
    chroot "$root" /usr/bin/env -i HOME=$home USER=$user LANG=C.UTF-8 PATH=$home/.cargo/bin:/usr/local/bin:/usr/bin:/bin \
        setpriv --reuid=$user --regid=$user --clear-groups -- bash -c "cd $home/gymkhana && $*"
}
finish() {
    umount --lazy "$root/proc" "$root/dev/shm" "$root/dev" 2>/dev/null || true
    [ "${KEEP:-0}" = 1 ] || rm -rf --one-file-system "$root"
}
trap finish EXIT

say "Debian 12 with a linker and without any other package for development"
debootstrap --variant=minbase --include=ca-certificates,libc6-dev,gcc bookworm "$root" >"$root.log" 2>&1 ||
    { tail "$root.log" >&2; exit 1; }
rm -f "$root.log"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t proc proc "$root/proc"
# The network as this machine sees it.
cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
cp -L /etc/hosts "$root/etc/hosts"
mkdir -p "$root/etc/ssl/certs"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

say "the Rust toolchain, the repository's last commit"
chroot "$root" useradd --create-home --shell /bin/bash $user
channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' "$repository/rust-toolchain.toml")
mkdir -p "$root$home/.rustup/toolchains" "$root$home/.cargo"
cp -a "${RUSTUP_HOME:-$HOME/.rustup}/settings.toml" "$root$home/.rustup/"
cp -aL "${RUSTUP_HOME:-$HOME/.rustup}/toolchains/$channel"* "$root$home/.rustup/toolchains/"
cp -aL "${CARGO_HOME:-$HOME/.cargo}/bin" "$root$home/.cargo/"
cp -a "${CARGO_HOME:-$HOME/.cargo}/registry" "$root$home/.cargo/"
git clone --quiet "$repository" "$root$home/gymkhana"
chroot "$root" chown -R $user:$user "$home"

say "without a compiler, git and Python, everything is named within five seconds"
refuse() {
    local since=$SECONDS status=0
    inside "cargo xtask $1" >"$root/tmp/refusal" 2>&1 || status=$?
    cat "$root/tmp/refusal" >&2
    [ $status = 2 ] || { echo "error: exit status $status instead of 2" >&2; exit 1; }
    [ $((SECONDS - since)) -le 5 ] || { echo "error: it took $((SECONDS - since)) s" >&2; exit 1; }
    grep -q "C++ compiler" "$root/tmp/refusal" && grep -q "pip" "$root/tmp/refusal"
    hint=$(sed -n 's/^hint: run `\(apt-get .*\)` as root.*/\1/p' "$root/tmp/refusal")
    [ -n "$hint" ] || { echo "error: no command is named" >&2; exit 1; }
    [ ! -e "$root$home/gymkhana/target/release/deps/libserde_json"* ] || { echo "error: something was compiled" >&2; exit 1; }
}
refuse demo
refuse test

say "the command of the hint: $hint"
chroot "$root" bash -c "apt-get update && DEBIAN_FRONTEND=noninteractive $hint" >"$root/tmp/hint" 2>&1 ||
    { tail "$root/tmp/hint" >&2; exit 1; }

for name in $commands; do
    say "cargo xtask $name"
    since=$SECONDS
    inside "cargo xtask $name"
    say "cargo xtask $name: $((SECONDS - since)) s"
done
