package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"
)

// BenchmarkOpenStreams measures what a stream costs that is open and silent: heap and stacks of
// the server and of the client's bare connection, in bytes per stream.
func BenchmarkOpenStreams(b *testing.B) {
	const streams = 500
	handler := &stub{events: func(ctx context.Context) iter.Seq2[sdk.Event, error] {
		return func(yield func(sdk.Event, error) bool) {
			if yield(echo("t"), nil) {
				<-ctx.Done()
			}
		}
	}}
	h, err := New(Front{Handler: NewChecks(handler, nil, nil, nil, nil, nil), Card: func(http.ResponseWriter, *http.Request, string) {}})
	require.NoError(b, err)
	for name, served := range map[string]http.Handler{"front": h, "sdk": a2asrv.NewJSONRPCHandler(handler)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				server := httptest.NewServer(served)
				before := inUse()
				var conns []net.Conn
				body := rpcBody("SubscribeToTask", `{"id":"t"}`)
				request := fmt.Sprintf("POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				buffer := make([]byte, 2048)
				for range streams {
					conn, err := net.Dial("tcp", server.Listener.Addr().String())
					require.NoError(b, err)
					_, err = conn.Write([]byte(request))
					require.NoError(b, err)
					_, err = conn.Read(buffer)
					require.NoError(b, err)
					conns = append(conns, conn)
				}
				b.ReportMetric(float64(inUse()-before)/streams, "B/stream")
				for _, conn := range conns {
					conn.Close()
				}
				server.Close()
			}
		})
	}
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkCall compares one call through the front with the same through the SDK's own handler,
// without a network.
func BenchmarkCall(b *testing.B) {
	handler := &stub{}
	h, err := New(Front{Handler: NewChecks(handler, nil, nil, nil, nil, nil), Card: func(http.ResponseWriter, *http.Request, string) {}})
	require.NoError(b, err)
	for name, served := range map[string]http.Handler{"front": h, "sdk": a2asrv.NewJSONRPCHandler(handler)} {
		for size, text := range map[string]string{"100B": strings.Repeat("x", 100), "100kB": strings.Repeat("word ", 20000)} {
			body := rpcBody("SendMessage", strings.Replace(hello, "hi", text, 1))
			b.Run(name+"/"+size, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					r := httptest.NewRequest("POST", "/rpc", strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					served.ServeHTTP(httptest.NewRecorder(), r)
				}
			})
		}
	}
}

// BenchmarkRewrite is the share of the front's rewriter, beside that of decoding alone.
func BenchmarkRewrite(b *testing.B) {
	doc := []byte(strings.Replace(hello, "hi", strings.Repeat("word ", 20000), 1))
	b.Run("rewrite", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			if _, err := rewrite(doc, shapeOf(reflect.TypeFor[sdk.SendMessageRequest]())); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(doc)))
		for b.Loop() {
			if err := json.Unmarshal(doc, new(sdk.SendMessageRequest)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
