// kafkajs for bench/failover.py: prints a line for each acknowledged record, record read, or commit. Everything is at its default.
'use strict'
const { Kafka, logLevel } = require('kafkajs')

const [mode, brokers, topic, group] = process.argv.slice(2)
const kafka = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING })
const PAUSE_MS = 10
const tell = () => console.log('.')
const pause = () => new Promise((resolve) => setTimeout(resolve, PAUSE_MS))

async function produce() {
  const producer = kafka.producer()
  await producer.connect()
  for (;;) {
    producer.send({ topic, messages: [{ value: 'x' }] }).then(tell, () => {})
    await pause()
  }
}

// It has no consumer without a group.
async function consume() {
  const consumer = kafka.consumer({ groupId: group })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  await consumer.run({ autoCommit: false, eachMessage: async () => tell() })
}

async function commit() {
  const consumer = kafka.consumer({ groupId: group })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  await consumer.run({ autoCommit: false, eachMessage: async () => {} })
  for (let offset = 0; ; offset++) {
    await consumer.commitOffsets([{ topic, partition: 0, offset: String(offset) }]).then(tell, () => {})
    await pause()
  }
}

;({ produce, consume, commit })[mode]()
