//! `duewheel import`: takes over what export wrote.

use std::io::{BufRead, BufReader, Read};

use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;

use super::arguments::ByAndWhy;
use super::context::Context;
use super::exit::Exit;
use super::export::Record;
use super::failure::{Failure, Outcome};
use super::output::Output;
use crate::error::escaped;
use crate::wheel::{Carried, Wheel};

/// Lines taken over together.
const BATCH: usize = 1000;
/// An exported line is no longer: payload and reason are bounded, and a byte takes at most six as an escape.
const MAX_LINE: u64 = 1024 * 1024;

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(
    about = "Reads what export wrote",
    long_about = "Takes over deadlines that export wrote, with all they have. An id that is on the wheel already stays as it is and \
                  is counted as such, so that an import that was cut off is simply run again. A broken line is reported with its \
                  number and left out, exit code 4.",
    after_help = "Examples:\n  duewheel import orders.ndjson\n  zstd -dc orders.ndjson.zst | duewheel import -"
)]
pub struct Import {
    /// The file; - is stdin
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    why: ByAndWhy,
}

/// What became of the lines so far.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    adopted: u64,
    present: u64,
    rejected: u64,
}

/// Imports.
pub async fn run(args: &Import, context: &Context, output: &mut Output) -> Outcome {
    let operator = context.operator(&args.why.who)?;
    let wheel = operator.wheel();
    let name = escaped(&args.file);
    let from: Box<dyn Read> = match args.file.as_str() {
        "-" => Box::new(std::io::stdin()),
        path => Box::new(std::fs::File::open(path).map_err(|e| Failure::Data(format!("{name}: {e}")))?),
    };
    let bar = super::enqueue::progress(output, None);
    let work = async {
        let mut taken = Taken::default();
        let read = take(BufReader::new(from), &name, wheel, output, &bar, &mut taken).await;
        match read {
            Err(Failure::World(error)) => Err(error),
            // What was taken over before a line that nobody can read stays.
            read => Ok((taken.adopted, taken.adopted + taken.present + taken.rejected, read.map(|()| taken))),
        }
    };
    let Taken { adopted, present, rejected } = operator.import(&args.file, &args.why.reason, work).await??;
    bar.finish_and_clear();
    let wheel = wheel.name();
    let object =
        json!({"wheel": wheel.as_str(), "adopted": adopted, "present": present, "rejected": rejected});
    output
        .say(&format!("{wheel}: {adopted} adopted, {present} there already, {rejected} rejected"), &object)?;
    Ok(match (adopted + present, rejected) {
        (_, 0) => Exit::Done,
        (0, _) => Exit::BadData,
        _ => Exit::Partial,
    })
}

/// Takes over line by line, and counts.
async fn take(
    mut from: impl BufRead,
    name: &str,
    wheel: &Wheel,
    output: &Output,
    bar: &ProgressBar,
    taken: &mut Taken,
) -> Result<(), Failure> {
    let bad = |e: std::io::Error| Failure::Data(format!("{name}: {e}"));
    let mut number = 0_u64;
    let mut batch: Vec<Carried> = Vec::new();
    loop {
        let mut line = Vec::new();
        let read = from.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(bad)?;
        number += 1;
        if read as u64 == MAX_LINE && line.last() != Some(&b'\n') {
            return Err(Failure::Data(format!(
                "{name}:{number}: is longer than {MAX_LINE} bytes; no export wrote it"
            )));
        }
        if !line.iter().all(u8::is_ascii_whitespace) {
            match record(&line).and_then(|record| record.carried(wheel)) {
                Ok(carried) => batch.push(carried),
                Err(reason) => {
                    taken.rejected += 1;
                    if taken.rejected <= 100 {
                        output.warn(&format!("{name}:{number}: {}", escaped(&reason)));
                    }
                }
            }
        }
        if batch.len() >= BATCH || read == 0 {
            let (new, old) = adopt(wheel, &batch).await?;
            taken.adopted += new;
            taken.present += old;
            batch.clear();
            bar.set_position(taken.adopted + taken.present);
        }
        if read == 0 {
            return Ok(());
        }
    }
}

async fn adopt(wheel: &Wheel, batch: &[Carried]) -> Result<(u64, u64), Failure> {
    let adopted = wheel.adopt(batch).await?;
    let new = adopted.iter().filter(|new| **new).count() as u64;
    Ok((new, adopted.len() as u64 - new))
}

fn record(line: &[u8]) -> Result<Record, String> {
    serde_json::from_slice(line).map_err(|e| {
        let text = e.to_string();
        text[..text.rfind(" at line 1 column").unwrap_or(text.len())].to_owned()
    })
}
