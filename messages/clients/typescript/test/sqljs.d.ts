/** What tests use of sql.js, which has no types. */
declare module "sql.js" {
  export class Database {
    run(sql: string, params?: unknown[]): this
  }
  export default function initSqlJs(): Promise<{ Database: typeof Database }>
}
