// kafkajs as a program for the tests: produce lines key:value idempotently, print records as such lines, and some of its admin client. It knows no test.
// It can consume only as a member of a group. It asks for a new login so long before its session ends (ms): REAUTHENTICATION. One `send` is for one key here: with several partitions in it, kafkajs 2.2.4 resolves without sending
// those whose leader died to a new leader that had answered already for others (sendMessages.js asks whether a broker has answered, not a partition).
'use strict'
const fs = require('fs')
const readline = require('readline')
const { Kafka, ConfigResourceTypes, logLevel } = require('kafkajs')

const [command, brokers, topic, batch] = process.argv.slice(2)
const REAUTHENTICATION = 1000
const retry = { retries: 2 * (process.env.CLIENT_PATIENCE_S || 25), initialRetryTime: 50, maxRetryTime: 500 }
const kafka = new Kafka({
  brokers: brokers.split(','),
  logLevel: logLevel.ERROR,
  retry,
  reauthenticationThreshold: REAUTHENTICATION,
  ...security(JSON.parse(process.env.CLIENT_SECURITY || '{}')),
})
const BATCH = Number(batch || 40)

// Names of PEM files, and a login, or the URL that gives tokens: what tests say to all clients that are programs.
function security({ ca, certificate, key, mechanism, username, password, tokens }) {
  if (!ca) return {}
  const ssl = { ca: [fs.readFileSync(ca)] }
  if (key) Object.assign(ssl, { cert: fs.readFileSync(certificate), key: fs.readFileSync(key) })
  if (!mechanism) return { ssl }
  if (tokens) return { ssl, sasl: { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: await token(tokens) }) } }
  return { ssl, sasl: { mechanism: mechanism.toLowerCase(), username, password } }
}

async function token(url) {
  const answer = await fetch(url, { method: 'POST' })
  return (await answer.json()).access_token
}

async function produce() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  const waiting = new Map()
  const send = async (key) => {
    await producer.send({ topic, acks: -1, messages: waiting.get(key) })
    waiting.delete(key)
  }
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [key, value] = line.split(':')
    if (!waiting.has(key)) waiting.set(key, [])
    if (waiting.get(key).push({ key, value }) === BATCH) await send(key)
  }
  for (const key of [...waiting.keys()]) await send(key)
  await producer.disconnect()
}

// For ever, as they come.
async function follow() {
  const consumer = kafka.consumer({ groupId: `g-${topic}` })
  consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || failed(payload.error))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => console.log(`${message.key}:${message.value}`) })
}

// What is changed through one broker is seen through another a moment later.
async function until(ask, holds) {
  for (;;) {
    const found = await ask()
    if (holds(found)) return found
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function administer() {
  const admin = kafka.admin()
  await admin.connect()
  const found = {}
  const retention = [{ name: 'retention.ms', value: '7777' }]
  found.created = await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 2, configEntries: retention }] })
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'cleanup.policy', value: 'compact,delete' }] }] })
  const configs = async () => {
    const described = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms', 'cleanup.policy'] }] })
    return Object.fromEntries(described.resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]))
  }
  found.configs = await until(configs, (seen) => seen['cleanup.policy'] !== 'delete')
  const partitions = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions
  await until(partitions, (seen) => seen.length === 3 && seen.every((partition) => partition.leader > 0))

  const producer = kafka.producer()
  await producer.connect()
  const messages = ['1', '2'].map((value) => ({ partition: 0, key: 'k', value, headers: { who: 'me' } }))
  await producer.send({ topic, compression: 1, messages })
  await producer.disconnect()
  const offsets = async () => (await admin.fetchTopicOffsets(topic)).sort((a, b) => a.partition - b.partition)
  found.offsets = await offsets()
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '1' }] })
  found.afterwards = (await offsets())[0]

  await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: [3, 1] }] }] })
  const replicas = async () => (await partitions()).find((partition) => partition.partitionId === 0).replicas
  found.moved = await until(replicas, (seen) => seen.join() === '3,1')
  found.brokers = (await admin.describeCluster()).brokers.map((broker) => broker.nodeId).sort()
  await admin.deleteTopics({ topics: [topic] })
  await until(() => admin.listTopics(), (topics) => topics.length === 0)
  await admin.disconnect()
  console.log(JSON.stringify(found))
}

const failed = (error) => {
  console.error(error)
  process.exit(1)
}
setTimeout(() => failed('it took too long'), 110000).unref()
;({ produce, follow, administer })[command]().catch(failed)
