// @platformatic/kafka as a program for the tests: sends numbers, reads them as a member of a group, copies them in transactions. It knows no test.
// The login is the one that KAFKA_SECURITY_PROTOCOL and its like name.
'use strict'
const { readFileSync } = require('fs')
const { pathToFileURL } = require('url')

const [verb, brokers, topic, count, last] = process.argv.slice(2)
const PATIENCE_MS = 40000
const env = process.env

function login() {
  if (env.KAFKA_SECURITY_PROTOCOL !== 'SASL_SSL') return {}
  return {
    tls: { ca: readFileSync(env.KAFKA_SSL_CA_LOCATION) },
    sasl: { mechanism: env.KAFKA_SASL_MECHANISM, username: env.KAFKA_SASL_USERNAME, password: env.KAFKA_SASL_PASSWORD }
  }
}

async function main() {
  const kafka = await import(pathToFileURL(require.resolve('@platformatic/kafka')))
  const base = { bootstrapBrokers: brokers.split(','), clientId: 'platformatic', ...login() }
  const producer = (more = {}) => new kafka.Producer({ ...base, serializers: kafka.stringSerializers, idempotent: true, ...more })
  const numbers = async (groupId, groupProtocol, each) => {
    const consumer = new kafka.Consumer({ ...base, groupId, groupProtocol, deserializers: kafka.stringDeserializers, maxWaitTime: 200, isolationLevel: 'READ_COMMITTED' })
    const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
    let read = 0
    for await (const message of stream) {
      await each(message, consumer)
      if (++read === Number(count)) return
    }
  }
  if (verb === 'send') {
    const sender = producer()
    for (let at = 0; at < Number(count); at++) await sender.send({ messages: [{ topic, key: `key-${at % 7}`, value: String(at) }] })
  } else if (verb === 'group') {
    await numbers(`${topic}-${last}`, last, async (message) => {
      console.log(message.value)
      await message.commit()
    })
  } else {
    const copier = producer({ transactionalId: `${topic}-copy` })
    const aborted = await copier.beginTransaction()
    await aborted.send({ messages: [{ topic: last, value: 'aborted' }] })
    await aborted.abort()
    await numbers(`${topic}-copy`, 'classic', async (message, consumer) => {
      const transaction = await copier.beginTransaction()
      await transaction.send({ messages: [{ topic: last, value: message.value }] })
      await transaction.addConsumer(consumer)
      await transaction.addOffset(message)
      await transaction.commit()
    })
  }
  process.exit(0)
}

function failed(error) {
  console.error(error)
  process.exit(1)
}

setTimeout(() => failed(new Error('it took too long')), PATIENCE_MS).unref()
process.on('uncaughtException', failed)
main().catch(failed)
