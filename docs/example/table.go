package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
	_ "modernc.org/sqlite" // the driver
)

// table contains the orders by ID. The database has no sequence or counter of
// its own.
type table struct{ db *sql.DB }

func openTable(ctx context.Context, path string) (table, error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return table{}, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE orders (
		id       INTEGER PRIMARY KEY,
		subject  TEXT    NOT NULL,
		customer TEXT    NOT NULL,
		cents    INTEGER NOT NULL
	)`)
	return table{db}, err
}

func (t table) close() error { return t.db.Close() }

// insert inserts enriched orders in a transaction, and returns the number of
// duplicates. An order that is delivered again has the same ID, so its key
// exists and nothing happens.
func (t table) insert(ctx context.Context, msgs []jetstream.Msg) (known int, err error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	for _, msg := range msgs {
		id, err := strconv.ParseInt(msg.Headers().Get("Ids-Id"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("event without an ID: %w", err)
		}
		var o order
		if err := json.Unmarshal(msg.Data(), &o); err != nil {
			return 0, fmt.Errorf("order %d: %w", id, err)
		}
		result, err := tx.ExecContext(ctx, `INSERT INTO orders (id, subject, customer, cents) VALUES (?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, id, msg.Subject(), o.Customer, o.Cents)
		if err != nil {
			return 0, fmt.Errorf("insert order %d: %w", id, err)
		}
		if n, err := result.RowsAffected(); err == nil && n == 0 {
			known++
		}
	}
	return known, tx.Commit()
}

// count returns the number of orders, and of different orders: all orders of
// produce differ in their cents.
func (t table) count(ctx context.Context) (rows, different int, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT count(*), count(DISTINCT cents) FROM orders`).Scan(&rows, &different)
	return rows, different, err
}

// printFirst prints the orders with the lowest IDs.
func (t table) printFirst(ctx context.Context, n int) (err error) {
	rows, err := t.db.QueryContext(ctx, `SELECT id, subject, customer, cents FROM orders ORDER BY id LIMIT ?`, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	fmt.Printf("%6s  %-16s  %-12s  %5s\n", "ID", "SUBJECT", "CUSTOMER", "CENTS")
	for rows.Next() {
		var id, cents int64
		var subject, customer string
		if err := rows.Scan(&id, &subject, &customer, &cents); err != nil {
			return err
		}
		fmt.Printf("%6d  %-16s  %-12s  %5d\n", id, subject, customer, cents)
	}
	return rows.Err()
}
