//go:build !unix

package servers

import "fmt"

// Postgres is a temporary PostgreSQL server, which only Unix systems can start
// here.
type Postgres struct{}

// StartPostgres is [NewPostgres] for a program that is not a test.
func StartPostgres(...string) (*Postgres, error) {
	return nil, fmt.Errorf("a temporary PostgreSQL server is %w on this system: name a server in %s", errMissing, PostgresURL)
}

// Close ends the server.
func (p *Postgres) Close() error { return nil }

// Own gives a file or folder to the account that runs the server.
func (p *Postgres) Own(string) error { return nil }

// URL returns the address of a database for the server's superuser.
func (p *Postgres) URL(string) string { return "" }

// Start starts the server again.
func (p *Postgres) Start() error { return errMissing }

// Stop shuts the server down.
func (p *Postgres) Stop() error { return errMissing }

// StopImmediately has the server drop everything.
func (p *Postgres) StopImmediately() error { return errMissing }

// Kill kills the server's main process.
func (p *Postgres) Kill() error { return errMissing }

// Standby copies the cluster, as a standby has it.
func (p *Postgres) Standby() (promote func() error, err error) { return nil, errMissing }

// Dump saves a database in a file.
func (p *Postgres) Dump(string) (restore func() error, err error) { return nil, errMissing }
