// As transformer.py, with kafkajs: arguments are the bootstrap servers and the number of records. Transactions of version 1, without the group's
// generation (kafkajs 2.2.4 does not send it): so it has one member at a time.
'use strict'
const { Kafka, logLevel } = require('kafkajs')

const [brokers, records] = process.argv.slice(2)
const SOURCE = 'source', TARGET = 'target', GROUP = 'transformers', ABORTED = 0.2
const AT_ONCE = 200
const kafka = new Kafka({ brokers: brokers.split(','), logLevel: logLevel.NOTHING, retry: { retries: 50, initialRetryTime: 50, maxRetryTime: 500 } })

async function transact(producer, partition, messages) {
  const transaction = await producer.transaction()
  try {
    await transaction.send({ topic: TARGET, messages: messages.map(({ key, value }) => ({ key, value, partition })) })
    const offset = (BigInt(messages[messages.length - 1].offset) + 1n).toString()
    await transaction.sendOffsets({ consumerGroupId: GROUP, topics: [{ topic: SOURCE, partitions: [{ partition, offset }] }] })
    if (Math.random() >= ABORTED) {
      await transaction.commit()
      return true
    }
  } catch (error) {
    await transaction.abort()
    throw error
  }
  await transaction.abort()
  return false
}

async function transform() {
  const producer = kafka.producer({ transactionalId: 'transformer', idempotent: true, maxInFlightRequests: 1, transactionTimeout: 20000 })
  const consumer = kafka.consumer({ groupId: GROUP, sessionTimeout: 6000, readUncommitted: false })
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topic: SOURCE, fromBeginning: true })
  console.log('ready')
  return new Promise((resolve, reject) => {
    consumer.on('consumer.crash', ({ payload }) => reject(payload.error))
    consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
        for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); ) {
          const messages = batch.messages.slice(at, at + AT_ONCE)
          if (await transact(producer, batch.partition, messages)) {
            at += messages.length
            resolveOffset(messages[messages.length - 1].offset)
          }
          console.log('transaction')
          await heartbeat()
        }
      },
    }).catch(reject)
    until().then(resolve, reject)
  })
}

// The offsets of all records are committed.
async function until() {
  const admin = kafka.admin()
  await admin.connect()
  for (;;) {
    const [{ partitions }] = await admin.fetchOffsets({ groupId: GROUP, topics: [SOURCE] })
    const sum = partitions.reduce((sum, { offset }) => sum + Math.max(0, Number(offset)), 0)
    if (sum >= Number(records)) return
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

async function main() {
  for (;;) {
    try {
      await transform()
      process.exit(0)
    } catch (error) {
      console.error(`ends after ${error}`)
      process.exit(3) // its consumers go on in the background: a process of its own begins anew
    }
  }
}

main()
