// pg-boss: setup | fill ROWS | work ROWS LOOPS BATCH. PGHOST and so on say where. Prints one line of JSON.
import { PgBoss } from "pg-boss";

const [command, ...numbers] = process.argv.slice(2);
const [rows, loops, batch] = numbers.map(Number);
const queue = "bench.check";

const boss = new PgBoss({
  host: process.env.PGHOST,
  port: Number(process.env.PGPORT),
  user: process.env.PGUSER,
  database: process.env.PGDATABASE,
  max: 10,
  supervise: false,
  schedule: false,
});
boss.on("error", (error) => {
  console.error(error);
  process.exit(1);
});
await boss.start();

if (command === "setup") {
  await boss.createQueue(queue);
} else if (command === "fill") {
  for (let from = 0; from < rows; from += 5000) {
    const jobs = Array.from({ length: Math.min(5000, rows - from) }, (_, k) => {
      const i = 1_000_000_001 + from + k;
      return {
        data: { order: i, customer: `customer-${i % 100_000}`, currency: "EUR", amount: (i % 1000) + 0.5, note: "x".repeat(28) },
      };
    });
    await boss.insert(queue, jobs);
  }
}

let seconds = 0;
if (command === "work") {
  let done = 0;
  const started = performance.now();
  const loop = async () => {
    for (;;) {
      const jobs = await boss.fetch(queue, { batchSize: batch });
      if (jobs.length === 0) return;
      await boss.complete(queue, jobs.map((job) => job.id));
      done += jobs.length;
    }
  };
  await Promise.all(Array.from({ length: loops }, loop));
  seconds = (performance.now() - started) / 1000;
  if (done !== rows) throw new Error(`${done} of ${rows} jobs were done`);
}
await boss.stop({ graceful: false });
console.log(JSON.stringify({ rows, seconds }));
process.exit(0);
