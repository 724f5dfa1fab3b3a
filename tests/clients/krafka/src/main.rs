//! krafka as a program for the tests: sends numbers, reads them as a member of a group, copies them in transactions. It knows no test.
//! The login is the one that KAFKA_SECURITY_PROTOCOL and its like name.
use std::time::{Duration, Instant};

use krafka::auth::AuthConfig;
use krafka::consumer::{AutoOffsetReset, GroupProtocol, IsolationLevel};
use krafka::producer::TopicPartitionOffset;
use krafka::{Kafka, Record};

type Failure = Box<dyn std::error::Error>;
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().collect();
    let kafka = Kafka::builder(&*words[2]).client_id("krafka").security(AuthConfig::from_env()?).connect().await?;
    let (topic, count) = (words[3].clone(), words[4].parse::<usize>()?);
    match &*words[1] {
        "send" => send(&kafka, &topic, count).await,
        "group" => in_group(&kafka, &topic, count, protocol(&words[5])).await,
        "copy" => copy(&kafka, &topic, count, &words[5]).await,
        other => Err(other.into()),
    }
}

fn protocol(name: &str) -> GroupProtocol {
    if name == "consumer" { GroupProtocol::Consumer } else { GroupProtocol::Classic }
}

async fn send(kafka: &Kafka, topic: &str, count: usize) -> Result<(), Failure> {
    let producer = kafka.producer().build().await?;
    for at in 0..count {
        let _ = producer.send(Record::new(topic, at.to_string()).key(format!("key-{}", at % 7))).await?;
    }
    producer.close().await?;
    Ok(())
}

/// Prints each value that is read, until there are as many as wanted, and commits them.
async fn in_group(kafka: &Kafka, topic: &str, count: usize, protocol: GroupProtocol) -> Result<(), Failure> {
    let consumer = kafka
        .consumer(format!("{topic}-{protocol:?}"))
        .group_protocol(protocol)
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .enable_auto_commit(false)
        .build()
        .await?;
    consumer.subscribe([topic]).await?;
    let (mut read, began) = (0, Instant::now());
    while read < count && began.elapsed() < PATIENCE {
        for record in consumer.poll(Duration::from_millis(500)).await? {
            println!("{}", record.value_str().unwrap_or_default());
            read += 1;
        }
    }
    consumer.commit().await?;
    consumer.close().await?;
    Ok(())
}

/// Copies in transactions; the first one is aborted, and made again.
async fn copy(kafka: &Kafka, topic: &str, count: usize, target: &str) -> Result<(), Failure> {
    let consumer = kafka
        .consumer(format!("{topic}-copy"))
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .isolation_level(IsolationLevel::ReadCommitted)
        .enable_auto_commit(false)
        .build()
        .await?;
    let producer = kafka
        .producer()
        .transaction_timeout(Duration::from_secs(60))
        .delivery_timeout(Duration::from_secs(45))
        .build_transactional(format!("{topic}-copy"))
        .await?;
    producer.begin()?;
    let _ = producer.send(Record::new(target, "aborted")).await?;
    producer.abort().await?;
    consumer.subscribe([topic]).await?;
    let (mut read, began) = (0, Instant::now());
    while read < count && began.elapsed() < PATIENCE {
        let records = consumer.poll(Duration::from_millis(500)).await?;
        if records.is_empty() {
            continue;
        }
        read += records.len();
        producer.begin()?;
        let mut offsets = Vec::new();
        for record in &records {
            let _ = producer.send(Record::new(target, record.value_str().unwrap_or_default().to_string())).await?;
            offsets.push(TopicPartitionOffset::new(&*record.topic, record.partition, record.offset + 1));
        }
        let member = consumer.group_metadata().await.ok_or("no member of the group")?;
        producer.send_offsets(&offsets, &member).await?;
        producer.commit().await?;
    }
    producer.close().await?;
    consumer.close().await?;
    Ok(())
}
