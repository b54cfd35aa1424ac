package a2av0

import (
	"bufio"
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
)

// silentStream says one thing and then nothing until it is told to end.
type silentStream struct {
	a2asrv.RequestHandler
	end chan struct{}
}

func (s *silentStream) SubscribeToTask(context.Context, *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(&sdk.Task{ID: "t", ContextID: "c"}, nil)
		<-s.end
		yield(&sdk.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: sdk.TaskStatus{State: sdk.TaskStateCompleted}}, nil)
	}
}

func TestKeepAlive(t *testing.T) {
	s := &silentStream{end: make(chan struct{})}
	srv := httptest.NewServer(NewHandler(s, 5*time.Millisecond))
	defer srv.Close()
	resp, err := http.Post(srv.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":"x","method":"tasks/resubscribe","params":{"id":"t"}}`))
	require.NoError(t, err)
	defer resp.Body.Close()
	comments, data := 0, 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, ":"):
			if comments++; comments == 3 {
				close(s.end)
			}
		case strings.HasPrefix(line, "data: "):
			data++
		}
	}
	require.GreaterOrEqual(t, comments, 3)
	require.Equal(t, 2, data)
}

// What needs no repair stays byte for byte, and what is no answer as well.
func TestRepaired(t *testing.T) {
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"1","result":{"kind":"task", "id":"t"}}`:                                              "",
		`{"jsonrpc":"2.0","id":"1","result":{"kind":"message","parts":[{"kind" : "text","text":"\"kind\":\"x\""}]}}`: "",
		`<html>`: "",
		`[1]`:    "",
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"m"}}`:                                                                    `{"error":{"code":-32603,"message":"m"},"id":"","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"m","data":["x"]}}`:                                                        `{"error":{"code":-32603,"message":"m"},"id":"1","jsonrpc":"2.0"}`,
		`{"jsonrpc":"2.0","id":"1","result":{"kind":"task","n":12345678901234567890,"history":[{"kind":"message","parts":[{"kind":"new"}]}]}}`: `{"id":"1","jsonrpc":"2.0","result":{"history":[{"kind":"message","parts":[]}],"kind":"task","n":12345678901234567890}}`,
	} {
		if want == "" {
			want = in
		}
		require.Equal(t, want, string(repaired([]byte(in))))
	}
}

func FuzzRepaired(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":7,"error":{"data":1},"result":{"parts":[{"kind":"x"},null],"kind":5}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		once := repaired(in)
		require.Equal(t, string(once), string(repaired(once)))
	})
}
