package main

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	_ "modernc.org/sqlite"

	"github.com/agentarbor/arbor/tools"
)

//go:embed airline.sql
var tables string

// desk contains the data of the airline: flights, bookings and refunds.
type desk struct{ db *sql.DB }

// openDesk opens the database in a file and creates missing tables. Without a file the database is in memory.
func openDesk(file string) (*desk, error) {
	db, err := sql.Open("sqlite", "file:"+cmp.Or(file, ":memory:")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // in memory, each connection would have its own database
	if _, err = db.Exec(tables); err != nil {
		return nil, fmt.Errorf("the bookings in %q: %w", file, err)
	}
	return &desk{db}, nil
}

type (
	tripIn struct {
		Booking string `json:"booking_id" jsonschema:"description=The booking\\, such as BK7001"`
	}
	moveIn struct {
		tripIn
		Flight string `json:"flight_id" jsonschema:"description=The new flight\\, such as MA103"`
	}
	seatIn struct {
		Flight    string `json:"flight_id" jsonschema:"description=The flight\\, such as MA101"`
		Passenger string `json:"passenger_name"`
	}
)

// tools returns the tools of the agents. The agents' files set who approves them. No amount comes from a model. After a
// crash that leaves the outcome of a call unknown, only the two tools that read run again, because only they are
// idempotent.
func (d *desk) tools() []tools.Tool {
	return []tools.Tool{
		must(tools.Func("list_flights", "List all flights.", func(ctx tools.Context, _ struct{}) (json.RawMessage, error) {
			return d.read(ctx, `SELECT json_group_array(json_object('flight_id', id, 'from', origin, 'to', destination,
				'departs', departs, 'fare', fare, 'seats', seats)) FROM flights`)
		}, tools.Idempotent())),
		must(tools.Func("find_booking", "Show a booking.", func(ctx tools.Context, in tripIn) (json.RawMessage, error) {
			return d.read(ctx, `SELECT json_object('booking_id', id, 'passenger', passenger, 'flight_id', flight,
				'paid', paid, 'refunded', (SELECT amount FROM refunds WHERE booking = id)) FROM bookings WHERE id = ?`, in.Booking)
		}, tools.Idempotent())),
		must(tools.Func("book_flight", "Buy a ticket.", func(ctx tools.Context, in seatIn) (string, error) {
			return "The ticket is bought.", d.write(ctx, []any{in.Flight, in.Passenger},
				"UPDATE flights SET seats = seats - 1 WHERE id = ?1 AND seats > 0 AND ?2 <> ''",
				`INSERT INTO bookings SELECT 'BK' || (SELECT 7001 + COUNT(*) FROM bookings), ?2, id, fare
					FROM flights WHERE id = ?1`)
		})),
		must(tools.Func("change_booking", "Change the flight.", func(ctx tools.Context, in moveIn) (string, error) {
			return "The booking is changed.", d.write(ctx, []any{in.Booking, in.Flight},
				"UPDATE flights SET seats = seats + 1 WHERE id = (SELECT flight FROM bookings WHERE id = ?1) AND id <> ?2",
				"UPDATE flights SET seats = seats - 1 WHERE id = ?2 AND seats > 0",
				"UPDATE bookings SET flight = ?2 WHERE id = ?1 AND id NOT IN (SELECT booking FROM refunds)")
		})),
		must(tools.Func("refund_booking", "Pay a booking back.", func(ctx tools.Context, in tripIn) (string, error) {
			return "The fare is paid back.", d.write(ctx, []any{in.Booking},
				"INSERT OR IGNORE INTO refunds SELECT id, paid FROM bookings WHERE id = ?1",
				"UPDATE flights SET seats = seats + 1 WHERE id = (SELECT flight FROM bookings WHERE id = ?1)")
		})),
	}
}

func (d *desk) read(ctx context.Context, query string, args ...any) (json.RawMessage, error) {
	var text string
	err := d.db.QueryRowContext(ctx, query, args...).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		err = errors.New("nothing has this id")
	}
	return json.RawMessage(text), err
}

// write makes all changes or none. Each change must find its row.
func (d *desk) write(ctx context.Context, args []any, changes ...string) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, change := range changes {
		result, err := tx.ExecContext(ctx, change, args...)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); n == 0 || err != nil {
			return errors.Join(errors.New("nothing is changed: no such booking or flight, no seat, or refunded before"), err)
		}
	}
	return tx.Commit()
}
