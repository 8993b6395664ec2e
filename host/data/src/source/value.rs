//! A value of an Arrow array as JSON.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, StructArray, downcast_dictionary_array};
use arrow_schema::DataType;
use gymkhana_rows::MAX_ROW_BYTES;
use serde_json::{Map, Value as Json};

use super::MAX_ROW_VALUES;
use super::calendar::date_or_time;

/// A value that cannot be read.
pub(super) enum UnreadValue {
    /// A type that has no JSON form here.
    Type(DataType),
    /// More bytes than a row may have.
    TooLarge,
}

/// What the values of a row may still take.
pub(super) struct RowBudget {
    bytes: u64,
    values: usize,
}

/// Bytes that a value takes besides its text.
const VALUE_BYTES: u64 = 4;

impl RowBudget {
    /// Room for a row.
    pub(super) fn of_row() -> Self {
        Self { bytes: u64::from(MAX_ROW_BYTES), values: MAX_ROW_VALUES }
    }

    /// Takes the room of a value, before the value is made.
    fn take_value(&mut self) -> Result<(), UnreadValue> {
        self.values = self.values.checked_sub(1).ok_or(UnreadValue::TooLarge)?;
        self.take_bytes(VALUE_BYTES)
    }

    fn take_bytes(&mut self, bytes: u64) -> Result<(), UnreadValue> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(UnreadValue::TooLarge)?;
        Ok(())
    }
}

/// Value in a row of an array. A float that is not finite becomes `null`, a decimal a text with all its digits, and bytes
/// a text if they are UTF-8.
pub(super) fn value(array: &ArrayRef, row: usize, room: &mut RowBudget) -> Result<Json, UnreadValue> {
    room.take_value()?;
    if array.is_null(row) {
        return Ok(Json::Null);
    }
    if let Some(text) = date_or_time(array, row) {
        return Ok(text);
    }
    let mut text = |bytes: &[u8]| {
        room.take_bytes(bytes.len() as u64)?;
        std::str::from_utf8(bytes).map(Json::from).map_err(|_| unsupported(array))
    };
    Ok(match array.data_type() {
        DataType::Null => Json::Null,
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Utf8 => text(array.as_string::<i32>().value(row).as_bytes())?,
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(row).as_bytes())?,
        DataType::Utf8View => text(array.as_string_view().value(row).as_bytes())?,
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float16 => array.as_primitive::<Float16Type>().value(row).to_f32().into(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Decimal32(..) => array.as_primitive::<Decimal32Type>().value_as_string(row).into(),
        DataType::Decimal64(..) => array.as_primitive::<Decimal64Type>().value_as_string(row).into(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value_as_string(row).into(),
        DataType::Decimal256(..) => array.as_primitive::<Decimal256Type>().value_as_string(row).into(),
        DataType::Binary => text(array.as_binary::<i32>().value(row))?,
        DataType::LargeBinary => text(array.as_binary::<i64>().value(row))?,
        DataType::BinaryView => text(array.as_binary_view().value(row))?,
        DataType::Dictionary(..) => category(array, row, room)?,
        DataType::Map(..) => map(&array.as_map().value(row), room)?,
        DataType::List(_) => list(&array.as_list::<i32>().value(row), room)?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row), room)?,
        DataType::FixedSizeList(..) => list(&array.as_fixed_size_list().value(row), room)?,
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(array.as_struct().columns());
            let entry = |(field, column): (&arrow_schema::FieldRef, &ArrayRef)| {
                value(column, row, room).map(|value| (field.name().clone(), value))
            };
            Json::Object(columns.map(entry).collect::<Result<Map<_, _>, _>>()?)
        }
        _ => return Err(unsupported(array)),
    })
}

fn list(values: &ArrayRef, room: &mut RowBudget) -> Result<Json, UnreadValue> {
    (0..values.len()).map(|row| value(values, row, room)).collect()
}

fn unsupported(array: &ArrayRef) -> UnreadValue {
    UnreadValue::Type(array.data_type().clone())
}

/// Value of a category, such as a column of pandas.
fn category(array: &ArrayRef, row: usize, room: &mut RowBudget) -> Result<Json, UnreadValue> {
    downcast_dictionary_array!(
        array => array.key(row).map_or(Ok(Json::Null), |key| value(array.values(), key, room)),
        other => Err(UnreadValue::Type(other.clone())),
    )
}

/// Entries of a map: an object if the keys are texts, else a list of pairs.
fn map(entries: &StructArray, room: &mut RowBudget) -> Result<Json, UnreadValue> {
    let (keys, values) = (list(entries.column(0), room)?, list(entries.column(1), room)?);
    let (Json::Array(keys), Json::Array(values)) = (keys, values) else { return Ok(Json::Null) };
    let pairs = keys.into_iter().zip(values);
    if entries.column(0).data_type().is_string() {
        let entry = |(key, value): (Json, Json)| Some((key.as_str()?.to_owned(), value));
        return Ok(Json::Object(pairs.filter_map(entry).collect()));
    }
    Ok(pairs.map(|(key, value)| Json::from(vec![key, value])).collect())
}
