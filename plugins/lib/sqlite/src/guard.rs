//! What a statement may do, decided while it is compiled, and how long, counted while it runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rusqlite::hooks::{AuthAction, Authorization};

use crate::meter;

/// Bytes of large values that count as a step.
const STEP_BYTES: u64 = 128;

/// Who writes the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// A stranger who may look.
    ReadOnly,
    /// A stranger who may change tables.
    ReadWrite,
    /// Whoever made the database: its script is not watched, but opens no file either.
    Owner,
}

/// Pragmas that tell of a schema and change nothing.
const TELLING: [&str; 12] = [
    "collation_list",
    "data_version",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "page_count",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Pragmas that scripts are written with, `.dump`'s among them.
const OWNERS: [&str; 7] =
    ["application_id", "encoding", "foreign_keys", "max_page_count", "page_size", "user_version", "journal_mode"];

/// Functions that would tell of earlier calls what a snapshot does not hold, or reach outside.
const REFUSED_FUNCTIONS: [&str; 4] = ["changes", "fts3_tokenizer", "load_extension", "total_changes"];

/// What stands beside a connection, for its callbacks.
pub(crate) struct Guard {
    access: AtomicU8,
    most: u64,
    spent: AtomicU64,
    /// The meter when the call began.
    made: AtomicU64,
    refused: Mutex<Option<String>>,
}

impl Guard {
    pub(crate) fn new(most: u64) -> Self {
        Self {
            access: AtomicU8::new(Access::Owner as u8),
            most,
            spent: AtomicU64::new(0),
            made: AtomicU64::new(0),
            refused: Mutex::new(None),
        }
    }

    /// From here on somebody else writes the statements.
    pub(crate) fn enter(&self, access: Access) {
        self.access.store(access as u8, Ordering::Relaxed);
        self.begin();
    }

    /// A new call: nothing is spent, nothing refused.
    pub(crate) fn begin(&self) {
        self.spent.store(0, Ordering::Relaxed);
        self.made.store(meter::counted(), Ordering::Relaxed);
        self.refused();
    }

    /// Counts steps; whether there were too many.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let spent = self.spent.fetch_add(steps, Ordering::Relaxed) + steps;
        let made = meter::counted().saturating_sub(self.made.load(Ordering::Relaxed)) / STEP_BYTES;
        self.access() != Access::Owner && spent + made > self.most
    }

    /// Why the last statement was refused, told once.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    /// SQLite's question about a part of a statement.
    pub(crate) fn decide(&self, action: &AuthAction<'_>) -> Authorization {
        match refusal(action, self.access()) {
            None => Authorization::Allow,
            Some(refusal) => {
                let mut refused = self.refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                refused.get_or_insert(refusal);
                Authorization::Deny
            }
        }
    }

    fn access(&self) -> Access {
        match self.access.load(Ordering::Relaxed) {
            0 => Access::ReadOnly,
            1 => Access::ReadWrite,
            _ => Access::Owner,
        }
    }
}

/// Why this may not be, if it may not.
fn refusal(action: &AuthAction<'_>, access: Access) -> Option<String> {
    use AuthAction as A;
    let owner = access == Access::Owner;
    match action {
        A::Select | A::Read { .. } | A::Recursive | A::Transaction { .. } | A::Savepoint { .. } => None,
        A::Function { function_name } => {
            let refused = REFUSED_FUNCTIONS.iter().any(|name| function_name.eq_ignore_ascii_case(name));
            refused.then(|| format!("the function `{function_name}` is not offered here"))
        }
        A::Pragma { pragma_name, .. } => {
            let named = |name: &&str| pragma_name.eq_ignore_ascii_case(name);
            let allowed = TELLING.iter().any(named) || owner && OWNERS.iter().any(named);
            (!allowed).then(|| {
                format!("PRAGMA {pragma_name} is refused; those that tell of tables are allowed, such as table_info")
            })
        }
        A::Attach { .. } | A::Detach { .. } => {
            Some("ATTACH and DETACH are refused: a statement sees one database".into())
        }
        A::CreateTempIndex { .. }
        | A::CreateTempTable { .. }
        | A::CreateTempTrigger { .. }
        | A::CreateTempView { .. } => Some(
            "temporary tables are refused: write WITH … AS (…), or create a plain table where that is allowed".into(),
        ),
        A::CreateVtable { .. } | A::DropVtable { .. } if !owner => Some("virtual tables are refused".into()),
        A::Unknown { .. } => Some("this is refused: it is unknown what it would do".into()),
        _ if access == Access::ReadOnly => {
            Some(format!("the database is read-only: {} is refused; write a SELECT", deed(action)))
        }
        _ => None,
    }
}

/// What a statement would do to tables, in SQL's word.
fn deed(action: &AuthAction<'_>) -> &'static str {
    use AuthAction as A;
    match action {
        A::Insert { .. } => "INSERT",
        A::Update { .. } => "UPDATE",
        A::Delete { .. } => "DELETE",
        A::AlterTable { .. } => "ALTER",
        A::Analyze { .. } => "ANALYZE",
        A::Reindex { .. } => "REINDEX",
        A::DropIndex { .. } | A::DropTable { .. } | A::DropTrigger { .. } | A::DropView { .. } => "DROP",
        _ => "CREATE",
    }
}
