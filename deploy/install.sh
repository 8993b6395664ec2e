#!/bin/sh
# Installs Gymkhana for Linux on x86-64 under the user's home. `cargo xtask dist` fills in version and checksum.
#
#   sh install.sh [--prefix DIR] [--bin DIR] [--archive FILE] [--uninstall]
#
# --prefix DIR    folder of the program [default: ~/.local/share/gymkhana]
# --bin DIR       folder of the links `host` and `gymkhana` [default: ~/.local/bin]
# --archive FILE  a downloaded archive, without network
# --uninstall     remove the program and its links
#
# GYMKHANA_URL is the address of the folder with the archive.
set -eu
umask 022

version='@VERSION@'
archive='@ARCHIVE@'
sha256='@SHA256@'
# The archive's one folder.
folder='@FOLDER@'
# File of an installation, by which this script knows a folder as its own.
mark='gymkhana-version'

fail() { # message, hint
    printf 'error: %s\nhint: %s\n' "$1" "$2" >&2
    exit "${3:-1}"
}

usage() {
    fail "$1" "sh install.sh [--prefix DIR] [--bin DIR] [--archive FILE] [--uninstall]" 2
}

check_system() {
    system=$(uname -s) machine=$(uname -m)
    [ "$system" = Linux ] || fail "cannot install on $system: the archive is for Linux" \
        "install the Python package without the trainer: pip install gymkhana-rl" 2
    case $machine in
        x86_64 | amd64) ;;
        *) fail "cannot install on $machine: the archive is for x86-64" \
            "install the Python package without the trainer: pip install gymkhana-rl" 2 ;;
    esac
}

need() { # program, what for
    command -v "$1" >/dev/null 2>&1 || fail "cannot install: \`$1\` is missing, which $2" "install the package with \`$1\`" 2
}

download() { # file
    [ -n "${GYMKHANA_URL:-}" ] || fail "cannot download $archive: no address is known" \
        "set GYMKHANA_URL to the folder of the release, or pass --archive FILE" 2
    url="${GYMKHANA_URL%/}/$archive"
    hint="check the address and the network, or download the archive and pass --archive FILE"
    if command -v curl >/dev/null 2>&1; then
        curl --fail --silent --show-error --location --output "$1" "$url" || fail "cannot download $url" "$hint"
    elif command -v wget >/dev/null 2>&1; then
        wget --quiet --output-document="$1" "$url" || fail "cannot download $url" "$hint"
    else
        fail "cannot download $url: neither curl nor wget is installed" "install one, or pass --archive FILE" 2
    fi
}

verify() { # file
    found=$(sha256sum <"$1") || fail "cannot read $1" "check the file"
    found=${found%% *}
    [ "$found" = "$sha256" ] || fail "$1 is not the archive of version $version: its SHA-256 is $found, not $sha256" \
        "download it again; nothing was changed"
}

is_ours() { # folder
    [ -f "$1/$mark" ]
}

link() { # name
    target="$prefix/bin/host"
    if [ -e "$bin/$1" ] && [ ! -L "$bin/$1" ]; then
        printf 'warning: %s stays: it is no link\n' "$bin/$1" >&2
        return 0
    fi
    ln -sfn "$target" "$bin/$1" || fail "cannot create the link $bin/$1" "pass --bin DIR with a folder of yours"
}

unlink_ours() { # name
    if [ -L "$bin/$1" ] && [ "$(readlink "$bin/$1")" = "$prefix/bin/host" ]; then
        rm -f "$bin/$1"
    fi
}

uninstall() {
    is_ours "$prefix" || fail "cannot uninstall: $prefix holds no installation" "pass the --prefix of the installation" 2
    unlink_ours host
    unlink_ours gymkhana
    rm -rf "$prefix" || fail "cannot remove $prefix" "check its permissions"
    printf 'removed %s\n' "$prefix"
}

install() {
    for program in sha256sum tar gzip; do need "$program" "checks and unpacks the archive"; done
    parent=$(dirname "$prefix")
    if [ -e "$prefix" ] && ! is_ours "$prefix"; then
        fail "cannot install into $prefix: it exists and is no installation" "pass --prefix DIR with a new folder" 2
    fi
    hint="pass --prefix DIR and --bin DIR with folders of yours"
    mkdir -p "$parent" 2>/dev/null || fail "cannot create $parent" "$hint"
    mkdir -p "$bin" 2>/dev/null || fail "cannot create $bin" "$hint"
    # Beside the target, so that the last step is a rename.
    work=$(mktemp -d "$parent/.gymkhana-XXXXXX" 2>/dev/null) || fail "cannot write into $parent" "$hint"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    if [ -n "$local_archive" ]; then
        [ -f "$local_archive" ] || fail "cannot read $local_archive: there is no such file" "check the path" 2
        file=$local_archive
    else
        file="$work/$archive"
        download "$file"
    fi
    verify "$file"
    tar -xzf "$file" -C "$work" || fail "cannot unpack $file" "check the free space of $parent (1 GB)"
    [ -x "$work/$folder/bin/host" ] || fail "$file has no program" "download it again"
    "$work/$folder/bin/host" --version >/dev/null || fail "the program does not start on this system" \
        "it needs glibc @GLIBC@ or newer"
    if [ -e "$prefix" ]; then
        mv "$prefix" "$work/old" || fail "cannot replace $prefix" "$hint"
    fi
    if ! mv "$work/$folder" "$prefix"; then
        [ ! -e "$work/old" ] || mv "$work/old" "$prefix"
        fail "cannot create $prefix" "$hint"
    fi
    link host
    link gymkhana
    printf 'installed Gymkhana %s in %s\n' "$version" "$prefix"
    case ":$PATH:" in
        *":$bin:"*) ;;
        *) printf 'hint: add %s to PATH\n' "$bin" >&2 ;;
    esac
}

prefix='' bin='' local_archive='' action=install
while [ $# -gt 0 ]; do
    case $1 in
        --prefix | --bin | --archive)
            [ $# -ge 2 ] && [ -n "$2" ] || usage "$1 needs a value"
            case $1 in --prefix) prefix=$2 ;; --bin) bin=$2 ;; *) local_archive=$2 ;; esac
            shift 2 ;;
        --uninstall) action=uninstall; shift ;;
        *) usage "unknown argument $1" ;;
    esac
done
[ -n "${HOME:-}" ] || [ -n "$prefix$bin" ] || usage "HOME is not set"
absolute() { case $1 in /*) printf '%s' "$1" ;; *) printf '%s/%s' "$(pwd)" "$1" ;; esac; }
prefix=$(absolute "${prefix:-${HOME:-}/.local/share/gymkhana}")
bin=$(absolute "${bin:-${HOME:-}/.local/bin}")
prefix=${prefix%/} bin=${bin%/}
check_system
"$action"
