//! Permissions of statements, checked at compile time, and their step limit, checked at run time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rusqlite::hooks::{AuthAction, Authorization};

use crate::meter;

/// Number of bytes of large values that count as one step.
const STEP_BYTES: u64 = 128;

/// Author of the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Untrusted author with read access.
    ReadOnly,
    /// Untrusted author who may change tables.
    ReadWrite,
    /// Owner of the database: the script is not limited, but cannot open files.
    Owner,
}

/// Pragmas that read the schema and change nothing.
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

/// Pragmas that are common in scripts, including those of `.dump`.
const OWNERS: [&str; 7] =
    ["application_id", "encoding", "foreign_keys", "max_page_count", "page_size", "user_version", "journal_mode"];

/// Functions that would reveal state outside of snapshots or reach outside of the database.
const REFUSED_FUNCTIONS: [&str; 4] = ["changes", "fts3_tokenizer", "load_extension", "total_changes"];

/// State of a connection, for its callbacks.
pub(crate) struct Guard {
    access: AtomicU8,
    most: u64,
    spent: AtomicU64,
    /// Meter at the start of the call.
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

    /// Ends the owner's permissions.
    pub(crate) fn enter(&self, access: Access) {
        self.access.store(access as u8, Ordering::Relaxed);
        self.begin();
    }

    /// Starts a new call with a full budget.
    pub(crate) fn begin(&self) {
        self.spent.store(0, Ordering::Relaxed);
        self.made.store(meter::counted(), Ordering::Relaxed);
        self.refused();
    }

    /// Counts steps; returns whether the limit is exceeded.
    pub(crate) fn spend(&self, steps: u64) -> bool {
        let spent = self.spent.fetch_add(steps, Ordering::Relaxed) + steps;
        let made = meter::counted().saturating_sub(self.made.load(Ordering::Relaxed)) / STEP_BYTES;
        self.access() != Access::Owner && spent + made > self.most
    }

    /// Takes the reason for the last rejection.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    /// Authorizer callback of SQLite for a part of a statement.
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

/// Reason for a rejection, if the action is not allowed.
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

/// SQL keyword of an action that changes tables.
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
