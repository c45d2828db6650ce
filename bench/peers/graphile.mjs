// graphile-worker: setup | work ROWS PROCESSES. PGHOST and so on say where. Prints one line of JSON.
import { fork } from "node:child_process";
import pg from "pg";
import { Logger, run, runMigrations } from "graphile-worker";

const [command, rowsText, processesText] = process.argv.slice(2);
const rows = Number(rowsText);
const processes = Number(processesText ?? 1);
const logger = new Logger(() => () => {});

// start works until stop is called; done counts.
async function start(done) {
  const pgPool = new pg.Pool({ max: 12 });
  pgPool.on("error", () => {});
  const runner = await run({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList: { "bench.check": done },
    preset: {
      worker: {
        concurrentJobs: 24,
        pollInterval: 200,
        localQueue: { size: 2000 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
  });
  return async () => {
    await runner.stop();
    await pgPool.end();
  };
}

async function alone() {
  let left = rows;
  let finished;
  const all = new Promise((resolve) => (finished = resolve));
  const started = performance.now();
  const stop = await start(() => {
    if (--left === 0) finished();
  });
  await all;
  await stop(); // what is done is recorded then
  return (performance.now() - started) / 1000;
}

async function child() {
  let count = 0;
  let told = 0;
  let running; // a promise: the other processes may have done all rows before this one has begun
  const tell = setInterval(() => {
    if (count > told) process.send({ count: count - told });
    told = count;
  }, 5);
  process.on("disconnect", () => process.exit(1));
  process.on("message", async (message) => {
    if (message === "go") {
      running = start(() => void count++);
    } else {
      clearInterval(tell);
      await (await running)();
      process.send("stopped");
      process.disconnect();
      process.exit(0);
    }
  });
  process.send("ready");
}

async function together() {
  const children = Array.from({ length: processes }, () => fork(process.argv[1], ["child"]));
  const messages = (wanted) =>
    Promise.all(
      children.map(
        (c) =>
          new Promise((resolve, reject) => {
            c.on("message", (m) => m === wanted && resolve());
            c.on("exit", (code) => code && reject(new Error(`a worker process exited with ${code}`)));
          }),
      ),
    );
  await messages("ready");
  const stopped = messages("stopped");
  let left = rows;
  const all = new Promise((resolve) =>
    children.forEach((c) => c.on("message", (m) => m.count && (left -= m.count) <= 0 && resolve())),
  );
  const started = performance.now();
  children.forEach((c) => c.send("go"));
  await all;
  children.forEach((c) => c.send("stop"));
  await stopped;
  return (performance.now() - started) / 1000;
}

if (command === "child") {
  await child();
} else if (command === "setup") {
  const pgPool = new pg.Pool({ max: 2 });
  await runMigrations({ pgPool, logger });
  await pgPool.end();
  console.log("{}");
} else {
  const seconds = processes > 1 ? await together() : await alone();
  console.log(JSON.stringify({ rows, seconds }));
}
