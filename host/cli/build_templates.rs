// Embeds all files below `templates/` into the program.

/// Writes `templates.rs`, a constant with the text of each file, its template and its path.
fn embed_templates() {
    println!("cargo::rerun-if-changed=templates");
    let root = std::path::Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("templates");
    let mut files = Vec::new();
    files_below(&root, &mut files);
    files.sort();
    let mut code = String::from("static TEMPLATES: &[TemplateFile] = &[\n");
    for file in files {
        let below = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().into_owned();
        if let Some((template, path)) = below.split_once('/') {
            let text = format!("include_str!({:?})", file.display().to_string());
            code.push_str(&format!("TemplateFile {{ template: {template:?}, path: {path:?}, text: {text} }},\n"));
        }
    }
    code.push_str("];\n");
    let out = std::path::Path::new(&std::env::var("OUT_DIR").unwrap_or_default()).join("templates.rs");
    std::fs::write(out, code).expect("cargo gives a folder that can be written to");
}

/// Collects source files; skips output of builds, tests and package managers.
fn files_below(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    const LEFT: [&str; 4] = ["target", "node_modules", "__pycache__", ".venv"];
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() && !LEFT.contains(&name.as_str()) {
            files_below(&path, files);
        } else if path.is_file() && name != "Cargo.lock" {
            files.push(path);
        }
    }
}
