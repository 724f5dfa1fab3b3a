// node-zookeeper-client as a program for the tests: what a console in Node does with ZooKeeper, told as one line of JSON. It knows no test.
const zookeeper = require('node-zookeeper-client')
const { promisify } = require('util')

const client = zookeeper.createClient(process.argv[2], { sessionTimeout: 10000 })
const call = (name, ...given) => promisify(client[name].bind(client))(...given)

async function main () {
  const connected = new Promise((resolve) => client.once('connected', resolve))
  client.connect()
  await connected
  const found = { brokers: (await call('getChildren', '/brokers/ids')).sort() }

  await call('mkdirp', '/node/a/b')
  const heard = new Promise((resolve) => client.getData('/node/a/b', resolve, () => {
    client.setData('/node/a/b', Buffer.from('x'), 0, (error) => { if (error) throw error })
  }))
  const event = await heard
  found.event = [event.getName(), event.getPath()]

  const gone = new Promise((resolve) => client.exists('/brokers/topics/from-node', (event) => resolve(event.getName()), () => {}))
  await call('create', '/config/topics/from-node', Buffer.from('{"version":1,"config":{"retention.ms":"1000"}}'))
  await call('create', '/brokers/topics/from-node', Buffer.from('{"version":1,"partitions":{"0":[2]}}'))
  found.topic = await gone

  const transaction = client.transaction().create('/node/t', Buffer.from('1')).setData('/node/t', Buffer.from('2'), 0).remove('/node/t', 1)
  const results = await promisify(transaction.commit.bind(transaction))()
  found.transaction = results.length
  found.refused = await call('create', '/kafka-acl/Topic/t').then(() => 'taken', (error) => error.getName())
  console.log(JSON.stringify(found))
  client.close()
}

main().catch((error) => { console.error(error); process.exit(1) })
