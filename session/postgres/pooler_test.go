package postgres_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/internal/testing/servers"
	"github.com/agentarbor/arbor/session"
)

// pooler is a transaction pooler: each transaction of its clients gets one of a few connections to the server, the one that
// was used least recently.
type pooler struct {
	free    chan *pgconn.HijackedConn
	clients sync.WaitGroup
}

// pool starts a pooler in front of a database, and returns the pooler's URL.
func pool(t *testing.T, database string, connections int) string {
	t.Helper()
	p := &pooler{free: make(chan *pgconn.HijackedConn, connections)}
	for range connections {
		conn, err := pgconn.Connect(t.Context(), database)
		require.NoError(t, err)
		server, err := conn.Hijack()
		require.NoError(t, err)
		p.free <- server
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	p.clients.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.clients.Go(func() {
				defer conn.Close()
				p.serve(pgproto3.NewBackend(conn, conn))
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		p.clients.Wait()
		for range connections {
			require.NoError(t, (<-p.free).Conn.Close())
		}
	})
	u := must.Get(url.Parse(database))
	u.Host = listener.Addr().String()
	return u.String() + "&default_query_exec_mode=exec" // as for a pooler that does not know prepared statements
}

// serve serves a client until it hangs up.
func (p *pooler) serve(client *pgproto3.Backend) {
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{"client_encoding": "UTF8", "standard_conforming_strings": "on"} {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: make([]byte, 4)})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var server *pgconn.HijackedConn
	for client.Flush() == nil {
		msg, err := client.Receive()
		if _, over := msg.(*pgproto3.Terminate); err != nil || over {
			return
		}
		if server == nil {
			server = <-p.free
		}
		server.Frontend.Send(msg)
		switch msg.(type) {
		case *pgproto3.Sync, *pgproto3.Query:
			if answer(client, server.Frontend) == 'I' {
				p.free <- server
				server = nil
			}
		}
	}
}

// answer passes on what the server answers, and returns the state of its transaction.
func answer(client *pgproto3.Backend, server *pgproto3.Frontend) (status byte) {
	if server.Flush() != nil {
		return 0
	}
	for {
		msg, err := server.Receive()
		if err != nil {
			return 0
		}
		client.Send(msg)
		if ready, ok := msg.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus
		}
	}
}

// TestManyStoresOpenANewDatabaseThroughAPooler: whoever brings the schema up to date keeps nothing that belongs to a connection.
func TestManyStoresOpenANewDatabaseThroughAPooler(t *testing.T) {
	database := servers.Database(t)
	through := pool(t, database, 2)
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = playOpen(through, strconv.Itoa(i), nil) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, "0", run(t, database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
	infos, err := open(t, database).List(context.Background(), session.Key{}, session.Page{})
	require.NoError(t, err)
	require.Len(t, infos, len(errs))
}
