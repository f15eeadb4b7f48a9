//! Reading what scripts return. A reply of another shape means another program's script or a broken proxy: an error, never a panic.

use redis::Value;

use crate::clock::Moment;
use crate::error::{Error, Result, StoreKind};

/// The elements of an array reply, taken one by one.
pub struct Reply {
    verb: &'static str,
    rest: std::vec::IntoIter<Value>,
}

impl Reply {
    /// Expects an array.
    pub fn array(verb: &'static str, value: Value) -> Result<Self> {
        match value {
            Value::Array(elements) => Ok(Self { verb, rest: elements.into_iter() }),
            Value::Nil => Ok(Self { verb, rest: Vec::new().into_iter() }),
            other => Err(unexpected(verb, &other)),
        }
    }

    /// Expects a map, or the same as a flat array of names and values.
    pub fn pairs(verb: &'static str, value: Value) -> Result<Self> {
        match value {
            Value::Map(pairs) => {
                let flat = pairs.into_iter().flat_map(|(name, value)| [name, value]).collect();
                Self::array(verb, Value::Array(flat))
            }
            other => Self::array(verb, other),
        }
    }

    /// How many elements are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next element, as it is.
    pub fn value(&mut self) -> Result<Value> {
        self.rest.next().ok_or_else(|| unexpected(self.verb, &"too few elements"))
    }

    /// The next element as a whole number.
    pub fn u64(&mut self) -> Result<u64> {
        let value = self.value()?;
        number(&value).and_then(|n| u64::try_from(n).ok()).ok_or_else(|| unexpected(self.verb, &value))
    }

    /// The next element as a whole number that may be negative.
    pub fn i64(&mut self) -> Result<i64> {
        let value = self.value()?;
        number(&value).ok_or_else(|| unexpected(self.verb, &value))
    }

    /// The next element as a moment in milliseconds.
    pub fn moment(&mut self) -> Result<Moment> {
        Ok(Moment::EPOCH.plus(std::time::Duration::from_millis(self.u64()?)))
    }

    /// The next element as bytes.
    pub fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.value()? {
            Value::BulkString(bytes) => Ok(bytes),
            Value::SimpleString(text) => Ok(text.into_bytes()),
            other => Err(unexpected(self.verb, &other)),
        }
    }

    /// The next element as text of ours.
    pub fn word(&mut self) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.bytes()?).into_owned())
    }
}

/// A script's plain text answer.
pub fn bytes(verb: &'static str, value: Value) -> Result<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Ok(bytes),
        Value::SimpleString(text) => Ok(text.into_bytes()),
        other => Err(unexpected(verb, &other)),
    }
}

/// A whole number, as integer or as text.
pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        Value::SimpleString(text) => text.parse().ok(),
        _ => None,
    }
}

/// The error for a reply of another shape.
pub fn unexpected(verb: &'static str, got: &impl std::fmt::Debug) -> Error {
    let mut message = format!("unexpected reply {got:?}");
    message.truncate(200);
    Error::Store {
        kind: StoreKind::Corrupt,
        attempted: verb.to_owned(),
        message: crate::error::escaped(&message),
    }
}
