package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// WithClock replaces the server's clock.
func WithClock(now func() time.Time) Option { return func(s *Store) { s.now = now } }

// Migrate brings the schema up to a version that may be an older one.
func Migrate(ctx context.Context, url string, version int) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return migrate(ctx, conn, version)
}

// SchemaVersion is the newest version.
const SchemaVersion = schemaVersion

// ListSQL is the statement for a page of a list.
var ListSQL = list

// OrphansSQL is the statement for a page of those that may be orphans.
var OrphansSQL = orphans
