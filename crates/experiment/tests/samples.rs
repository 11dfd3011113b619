//! The tables of a run, through the files they leave.

use std::fs;

use experiment::samples::{Column, SampleTable, Unit, UnitTable, read_table};

fn entities(table: Vec<(String, Column)>) -> Vec<String> {
    let (_, column) = table
        .into_iter()
        .find(|(name, _)| name == "entity")
        .expect("a column of entities");
    let Column::Words { codes, words } = column else {
        panic!("entities are words");
    };
    codes
        .iter()
        .map(|code| words[*code as usize].clone())
        .collect()
}

#[test]
fn an_entity_may_appear_while_the_table_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let mut table = SampleTable::create(path, &["bytes_sent"]).expect("a table");
    let bulk = table.add_entity("flows.bulk");
    table.push(0, bulk, 0, 1.0).expect("a row");
    table.flush().expect("a batch");
    let late = table.add_entity("flows.bulk.subflows.1");
    table.push(1, late, 0, 2.0).expect("a row");
    table.push(2, bulk, 0, 3.0).expect("a row");
    let expected = ["flows.bulk", "flows.bulk.subflows.1", "flows.bulk"];
    table.flush().expect("a batch");
    let stream = read_table(&path.join("samples.csv")).expect("a stream");
    assert_eq!(entities(stream), expected);
    table.finish().expect("a Parquet file");
    let parquet = read_table(&path.join("samples.parquet")).expect("a Parquet file");
    assert_eq!(entities(parquet), expected);
}

#[test]
fn numbers_are_the_same_while_the_table_is_written_and_after_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let values = [
        0.0,
        -0.0,
        0.1 + 0.2,
        1e-300,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        9_007_199_254_740_993.0,
    ];
    let mut table = SampleTable::create(path, &["a, \"quoted\" name"]).expect("a table");
    let entity = table.add_entity("flows.bulk");
    for value in values {
        table.push(u64::MAX >> 1, entity, 0, value).expect("a row");
    }
    table.flush().expect("rows");
    let streamed = read_table(&path.join("samples.csv")).expect("a table");
    table.finish().expect("a Parquet file");
    assert_eq!(
        streamed,
        read_table(&path.join("samples.parquet")).expect("a table")
    );
    assert_eq!(streamed[3].1, Column::Floats(values.to_vec()));
}

#[test]
fn a_table_longer_than_the_memory_for_it_is_whole() {
    const ROWS: u64 = 150_000;
    let directory = tempfile::tempdir().expect("a directory");
    let flows = ["first".to_owned(), "second".to_owned()];
    let mut table = UnitTable::create(directory.path(), &flows).expect("a table");
    for unit in 0..ROWS {
        let row = Unit {
            flow: (unit % 2) as usize,
            unit,
            bytes: 1000,
            sent_ns: unit * 3,
            received_ns: unit * 5,
            delivered_ns: unit * 7,
        };
        table.push(row).expect("a row");
    }
    table.finish().expect("a Parquet file");
    assert!(!directory.path().join("units.csv").exists());
    let table = read_table(&directory.path().join("units.parquet")).expect("a table");
    let units = (0..ROWS as i64).collect();
    assert_eq!(table[1], ("unit".to_owned(), Column::Integers(units)));
    let Column::Words { codes, words } = &table[0].1 else {
        panic!("flows are words");
    };
    assert_eq!((codes[1], words[1].as_str()), (1, "second"));
}

#[test]
fn a_field_that_is_no_number_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("samples.csv");
    let error = |row: &str| {
        fs::write(
            &path,
            format!("time_ns,entity,metric,value\n0,a,b,1.5\n{row}\n"),
        )
        .expect("a file");
        let error = read_table(&path).expect_err("an error").to_string();
        error.replace(&path.display().to_string(), "")
    };
    assert_eq!(
        error("1.5,a,b,0"),
        ":3: time_ns: found \"1.5\", allowed is a number"
    );
    assert_eq!(error("1,a,b"), ":3: found 3 fields, allowed are 4");
}
