// KafkaJS's registry client as a program for the tests: a record encoded by the number of its schema, and decoded by it. It knows no test.
const { SchemaRegistry, SchemaType } = require("@kafkajs/confluent-schema-registry");

async function main([url, subject, text]) {
  const registry = new SchemaRegistry({ host: url });
  const { id } = await registry.register({ type: SchemaType.AVRO, schema: text }, { subject });
  const record = await registry.encode(id, { number: 7, at: "x" });
  const found = await new SchemaRegistry({ host: url }).decode(record);
  const latest = await registry.getLatestSchemaId(subject);
  console.log(JSON.stringify({ id, latest, found, header: record.subarray(0, 5).toString("hex") }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
