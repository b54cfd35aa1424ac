package access

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines is a writer that keeps what happened to it.
type deadlines struct {
	http.ResponseWriter
	events []string
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.events = append(d.events, fmt.Sprint("deadline ", at.After(time.Now())))
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.events = append(d.events, fmt.Sprint("write ", len(p)))
	return len(p), nil
}

// Who reads slowly gets all of a large answer, because each piece has a time of its own.
func TestEachPieceHasItsDeadline(t *testing.T) {
	d := &deadlines{ResponseWriter: httptest.NewRecorder()}
	n, err := NewWriter(d, time.Hour).Write(make([]byte, 2*pieceSize+1))
	require.NoError(t, err)
	require.Equal(t, 2*pieceSize+1, n)
	require.Equal(t, []string{"deadline true", "write 65536", "deadline true", "write 65536", "deadline true", "write 1"}, d.events)
}

func TestHarden(t *testing.T) {
	server := &http.Server{}
	Harden(server)
	require.Equal(t, 10*time.Second, server.ReadHeaderTimeout)
	require.Equal(t, 2*time.Minute, server.IdleTimeout)
	require.Equal(t, 64<<10, server.MaxHeaderBytes)
	require.Zero(t, server.WriteTimeout)
	require.Zero(t, server.ReadTimeout)
	server = &http.Server{ReadHeaderTimeout: 1, IdleTimeout: 2, MaxHeaderBytes: 3}
	Harden(server)
	require.Equal(t, &http.Server{ReadHeaderTimeout: 1, IdleTimeout: 2, MaxHeaderBytes: 3}, server)
}

func TestLimit(t *testing.T) {
	l := NewLimit(2)
	require.NoError(t, l.Enter("ann"))
	require.NoError(t, l.Enter("ann"))
	var refused *LimitError
	require.ErrorAs(t, l.Enter("ann"), &refused)
	require.Equal(t, 2, refused.Most)
	require.NoError(t, l.Enter("bob"))
	l.Leave("ann")
	require.NoError(t, l.Enter("ann"))
	l.Leave("bob")
	require.NotContains(t, l.n, "bob", "who has nothing under way is forgotten")
}
