//! The tables of a run, through the files they leave.

use experiment::samples::{Column, SampleTable, read_table};

fn entities(table: Vec<(String, Column)>) -> Vec<String> {
    let (_, column) = table
        .into_iter()
        .find(|(name, _)| name == "entity")
        .expect("a column of entities");
    let Column::Words { codes, words } = column else {
        panic!("entities are words");
    };
    let rows = codes.values().iter();
    rows.map(|code| words[*code as usize].clone()).collect()
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
    let stream = read_table(&path.join("samples.arrows")).expect("a stream");
    assert_eq!(entities(stream), expected);
    table.finish().expect("a Parquet file");
    let parquet = read_table(&path.join("samples.parquet")).expect("a Parquet file");
    assert_eq!(entities(parquet), expected);
}
