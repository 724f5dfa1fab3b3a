//! rskafka as a program for the tests: sends numbers to the partitions of a topic, reads them there. It has no groups and no transactions. It knows no test.
use std::collections::BTreeMap;

use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

type Failure = Box<dyn std::error::Error>;
const PARTITIONS: usize = 3;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let client = ClientBuilder::new(words[2].split(',').map(String::from).collect()).build().await?;
    let (topic, count) = (&words[3], words[4].parse::<usize>()?);
    if words[1] == "send" { send(&client, topic, count).await } else { read(&client, topic, count).await }
}

async fn partition(client: &Client, topic: &str, index: usize) -> Result<PartitionClient, Failure> {
    Ok(client.partition_client(topic, index as i32, UnknownTopicHandling::Retry).await?)
}

async fn send(client: &Client, topic: &str, count: usize) -> Result<(), Failure> {
    for index in 0..PARTITIONS {
        let partition = partition(client, topic, index).await?;
        for at in (index..count).step_by(PARTITIONS) {
            let record = Record { key: None, value: Some(at.to_string().into_bytes()), headers: BTreeMap::new(), timestamp: chrono::Utc::now() };
            partition.produce(vec![record], Compression::NoCompression).await?;
        }
    }
    Ok(())
}

/// Prints each value of the partitions, until there are as many as were sent.
async fn read(client: &Client, topic: &str, count: usize) -> Result<(), Failure> {
    for index in 0..PARTITIONS {
        let partition = partition(client, topic, index).await?;
        let mut next = 0;
        while (next as usize) < (index..count).step_by(PARTITIONS).count() {
            let (records, _) = partition.fetch_records(next, 1..1_000_000, 1_000).await?;
            for found in records {
                println!("{}", String::from_utf8(found.record.value.unwrap_or_default())?);
                next = found.offset + 1;
            }
        }
    }
    Ok(())
}
