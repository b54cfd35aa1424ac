package access

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkStream measures frames on their way from a handler to a client: one at a time, each
// after the last one has arrived, and a thousand that are ready together.
func BenchmarkStream(b *testing.B) {
	for name, burst := range map[string]int{"one": 1, "thousand": 1000} {
		b.Run(name, func(b *testing.B) {
			more, data := make(chan int), make([]byte, 200)
			for i := range data {
				data[i] = 'a'
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s := NewStream(r.Context(), w, 0)
				defer s.Close()
				_ = s.Begin()
				for n := range more {
					for range n {
						if s.Send(Frame{ID: "12-3", Data: data}) != nil {
							return
						}
					}
				}
			}))
			defer server.Close()
			defer close(more)
			got := must(http.Get(server.URL))
			defer got.Body.Close()
			lines := bufio.NewScanner(got.Body)
			b.ReportAllocs()
			for b.Loop() {
				more <- burst
				for range 3 * burst {
					lines.Scan()
				}
			}
		})
	}
}
