// @platformatic/kafka as a program for the tests: two consumers of the new protocol read a topic that grows, at moments that fit no heartbeat. It knows no test.
// Its metadata may be five seconds old; it ends with an uncaught TypeError when it is given a partition that it has not heard of.
'use strict'
const { pathToFileURL } = require('url')

const [brokers, topic, growths] = process.argv.slice(2)
const FIRST = 2
const PAUSES_MS = [1700, 2900, 3700, 800, 4300, 2300]
const PATIENCE_MS = 1000 * (process.env.CLIENT_PATIENCE_S || 25)
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function main() {
  const kafka = await import(pathToFileURL(require.resolve('@platformatic/kafka')))
  const base = { bootstrapBrokers: brokers.split(','), clientId: 'platformatic' }
  const admin = new kafka.Admin(base)
  await admin.createTopics({ topics: [topic], partitions: FIRST, replicas: 1 })
  const producer = new kafka.Producer({ ...base, serializers: kafka.stringSerializers, metadataMaxAge: 0 })
  const read = new Set()
  const consumers = []
  for (let i = 0; i < 2; i++) {
    const consumer = new kafka.Consumer({ ...base, groupId: `g-${topic}`, groupProtocol: 'consumer', deserializers: kafka.stringDeserializers, maxWaitTime: 500 })
    consumers.push(consumer)
    const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
    stream.on('data', (message) => read.add(message.value))
    stream.on('error', failed)
  }
  const sent = new Set()
  let partitions = FIRST
  for (let growth = 0; growth < Number(growths); growth++) {
    await pause(PAUSES_MS[growth % PAUSES_MS.length])
    partitions += 2
    await admin.createPartitions({ topics: [{ name: topic, count: partitions }] })
    await pause(200)
    for (let partition = 0; partition < partitions; partition++) {
      const value = `${growth}-${partition}`
      await producer.send({ messages: [{ topic, partition, value }] })
      sent.add(value)
    }
  }
  const until = Date.now() + PATIENCE_MS
  while (read.size < sent.size && Date.now() < until) await pause(100)
  console.log(JSON.stringify({ missing: [...sent].filter((value) => !read.has(value)), partitions }))
  process.exit(0)
}

function failed(error) {
  console.error(error)
  process.exit(1)
}

process.on('uncaughtException', failed)
main().catch(failed)
