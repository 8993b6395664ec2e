//! Dates and times of Arrow arrays, as texts of ISO 8601.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, TimeUnit};
use serde_json::Value as Json;

/// Date or time in a row; `null` if it lies outside of the calendar. `None` for another type.
pub(super) fn date_or_time(array: &ArrayRef, row: usize) -> Option<Json> {
    // `Debug` of these types is ISO 8601.
    macro_rules! text {
        ($kind:ty, $read:ident) => {
            array.as_primitive::<$kind>().$read(row).map(|value| format!("{value:?}"))
        };
    }
    let text = match array.data_type() {
        DataType::Date32 => text!(Date32Type, value_as_date),
        DataType::Date64 => text!(Date64Type, value_as_date),
        DataType::Time32(TimeUnit::Second) => text!(Time32SecondType, value_as_time),
        DataType::Time32(_) => text!(Time32MillisecondType, value_as_time),
        DataType::Time64(TimeUnit::Microsecond) => text!(Time64MicrosecondType, value_as_time),
        DataType::Time64(_) => text!(Time64NanosecondType, value_as_time),
        DataType::Timestamp(unit, zone) => {
            let text = match unit {
                TimeUnit::Second => text!(TimestampSecondType, value_as_datetime),
                TimeUnit::Millisecond => text!(TimestampMillisecondType, value_as_datetime),
                TimeUnit::Microsecond => text!(TimestampMicrosecondType, value_as_datetime),
                TimeUnit::Nanosecond => text!(TimestampNanosecondType, value_as_datetime),
            };
            // A time with a zone is stored as that of UTC.
            text.map(|text| if zone.is_some() { text + "Z" } else { text })
        }
        _ => return None,
    };
    Some(text.map_or(Json::Null, Json::from))
}
