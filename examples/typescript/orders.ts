// An application that enqueues checks of its orders in its own transactions, and answers for them.
//
// Usage: node dist/orders.js COMMAND
//
//   tables             make the tables of the shop
//   place ID           place an order, and enqueue a check for a second later
//   break ID           the same, in a transaction that is rolled back
//   ship ID            ship it, and cancel the check
//   serve [PORT]       answer for the orders that are due: an alert for each that is not shipped
//   remind ID CRONTAB  let an event come at the instants of a crontab
//
// It takes DATABASE_URL; serve also WEBHOOK_SECRET, remind SCHEDULES_URL and SCHEDULES_TOKEN.

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import createClient from "openapi-fetch";
import pg from "pg";
import type { paths } from "./schedules.js";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
// A restart of the database ends idle connections, too. Without a listener, that would end the process.
pool.on("error", (error) => console.error(error));

async function inTransaction<T>(work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  const tx = await pool.connect();
  const lost = (error: Error) => console.error(error); // as above, while the connection is not the pool's
  tx.on("error", lost);
  let unusable: Error | undefined;
  try {
    await tx.query("begin");
    const result = await work(tx);
    await tx.query("commit");
    return result;
  } catch (error) {
    await tx.query("rollback").catch((failed: Error) => (unusable = failed));
    throw error;
  } finally {
    tx.off("error", lost);
    tx.release(unusable); // an error closes the connection
  }
}

async function tables(): Promise<void> {
  await pool.query("create table orders (id text primary key, shipped_at timestamptz)");
  await pool.query("create table alert (order_id text primary key)");
}

// The check exists if and only if the order does.
async function place(id: string, broken = false): Promise<void> {
  await inTransaction(async (tx) => {
    await tx.query("insert into orders (id) values ($1)", [id]);
    await tx.query("select prescient.enqueue('order.unshipped', 'orders', $1, check_at => now() + interval '1 second')", [id]);
    if (broken) throw new Error("the transaction is rolled back");
  });
}

async function ship(id: string): Promise<void> {
  await inTransaction(async (tx) => {
    await tx.query("update orders set shipped_at = now() where id = $1", [id]);
    await tx.query("select prescient.cancel('order.unshipped', 'orders', $1)", [id]);
  });
}

interface Row {
  id: number;
  entity_key: string;
}

interface Result {
  id: number;
  next?: string | null;
  error?: string;
}

// One look-up for all rows of a request. The same check may come again after a crash, so an alert is written once.
async function check(rows: Row[]): Promise<Result[]> {
  const keys = rows.map((row) => row.entity_key);
  const { rows: known } = await pool.query<{ id: string; shipped: boolean }>(
    "select id, shipped_at is not null as shipped from orders where id = any ($1)", [keys]);
  const shipped = new Map(known.map((order) => [order.id, order.shipped]));
  const late = keys.filter((key) => shipped.get(key) === false);
  await pool.query("insert into alert select unnest($1::text[]) on conflict do nothing", [late]);
  return rows.map(({ id, entity_key }) =>
    shipped.has(entity_key) ? { id, next: null } : { id, error: `there is no order ${entity_key}` });
}

// As Standard Webhooks has it.
function isSigned(request: IncomingMessage, body: Buffer, secret: string): boolean {
  const header = (name: string) => String(request.headers[name] ?? "");
  const sent = Number(header("webhook-timestamp"));
  if (!(Math.abs(Date.now() / 1000 - sent) < 300)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const signed = Buffer.concat([Buffer.from(`${header("webhook-id")}.${header("webhook-timestamp")}.`), body]);
  const want = Buffer.from("v1," + createHmac("sha256", key).update(signed).digest("base64"));
  return header("webhook-signature").split(" ").map((got) => Buffer.from(got))
    .some((got) => got.length === want.length && timingSafeEqual(got, want));
}

function serve(port: number): void {
  const secret = process.env.WEBHOOK_SECRET;
  if (!secret?.startsWith("whsec_")) throw new Error("WEBHOOK_SECRET must be set: whsec_ and base64");
  const server = createServer(async (request, response) => {
    try {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer); // throws if the caller goes away
      const body = Buffer.concat(parts);
      if (!isSigned(request, body, secret)) {
        response.writeHead(401).end();
        return;
      }
      const { rows } = JSON.parse(body.toString()) as { rows: Row[] };
      const answer = JSON.stringify({ results: await check(rows) });
      response.writeHead(200, { "Content-Type": "application/json" }).end(answer);
    } catch (error) {
      console.error(error);
      response.writeHead(500).end();
    }
  });
  server.listen(port, "127.0.0.1", () => console.log(`listening on port ${(server.address() as AddressInfo).port}`));
}

async function remind(id: string, crontab: string): Promise<void> {
  const client = createClient<paths>({
    baseUrl: process.env.SCHEDULES_URL ?? "http://localhost:8080/api/v1",
    headers: { Authorization: `Bearer ${process.env.SCHEDULES_TOKEN}` },
  });
  let { data, error } = await client.POST("/schedules", { body: { id, crontab, payload: { order: id } } });
  if (error?.status === 409) {
    ({ data, error } = await client.PATCH("/schedules/{id}", { params: { path: { id } }, body: { crontab } }));
  }
  if (!data) throw new Error(error?.detail);
  console.log(`${data.id} ${data.crontab} version ${data.version}`);
}

const [command, id = "", crontab = ""] = process.argv.slice(2);
const commands: Record<string, () => unknown> = {
  tables,
  place: () => place(id),
  break: () => place(id, true),
  ship: () => ship(id),
  serve: () => serve(Number(id || 8080)),
  remind: () => remind(id, crontab),
};
const run = commands[command ?? ""];
if (!run) throw new Error(`want one of ${Object.keys(commands).join(", ")}`);
await run();
if (command !== "serve") await pool.end();
