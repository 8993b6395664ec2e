//! C compiler for plugins that contain C: zig's, from a Python package. `.cargo/config.toml` names the two programs
//! written here, so that plain cargo finds them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context;

use crate::step::step;
use crate::tools::ensure_python;

/// The locked package.
const PACKAGE: &str = include_str!("../../requirements/zig.txt");

/// Creates `.tools/c/cc` and `.tools/c/ar` if they are missing.
pub fn ensure(root: &Path) -> anyhow::Result<()> {
    step("compiler for C", || {
        let python = ensure_python(root, "zig", PACKAGE)?;
        let folder = root.join(".tools").join("c");
        fs::create_dir_all(&folder)?;
        let cache = folder.join("cache");
        write(&folder.join("cc"), &compile(&python, &cache))?;
        write(&folder.join("ar"), &format!("#!/bin/sh\nexec '{}' -m ziglang ar \"$@\"\n", python.display()))
    })
}

/// Replaces the target of cargo's builds, which zig does not know, by zig's name.
fn compile(python: &Path, cache: &Path) -> String {
    let (python, cache) = (python.display(), cache.display());
    format!(
        r#"#!/bin/sh
export ZIG_GLOBAL_CACHE_DIR='{cache}' ZIG_LOCAL_CACHE_DIR='{cache}'
for argument do
    shift
    case "$argument" in --target=*) ;; *) set -- "$@" "$argument" ;; esac
done
exec '{python}' -m ziglang cc -target wasm32-wasi "$@"
"#
    )
}

/// Writes a program if it is missing or differs.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_target_is_zigs_and_everything_else_is_passed_on() {
        let folder = std::env::temp_dir().join(format!("gymkhana-compiler-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (python, cc) = (folder.join("python"), folder.join("cc"));
        write(&python, "#!/bin/sh\nfor argument do echo \"<$argument>\"; done\n").unwrap();
        write(&cc, &compile(&python, &folder)).unwrap();
        let arguments = ["-O3", "--target=wasm32-wasip2", "-DNAME=a b", "-c", "x.c"];
        let output = Command::new(&cc).args(arguments).output().unwrap();
        let passed = String::from_utf8(output.stdout).unwrap();
        let wanted = ["-m", "ziglang", "cc", "-target", "wasm32-wasi", "-O3", "-DNAME=a b", "-c", "x.c"];
        assert_eq!(passed.lines().collect::<Vec<_>>(), wanted.map(|argument| format!("<{argument}>")));
        fs::remove_dir_all(folder).unwrap();
    }
}
