package server_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session/sqlite"
)

var soakTime = flag.Duration("soak", 2*time.Second, "how long TestSoak sends requests")

// held is what a process holds.
type held struct {
	goroutines, files int
	heap              uint64
}

func heldNow() (h held) {
	runtime.GC()
	runtime.GC() // the first one empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	open, _ := os.ReadDir("/proc/self/fd")
	return held{runtime.NumGoroutine(), len(open), m.HeapAlloc}
}

// TestSoak: clients begin turns that answer, fail, ask, wait and hang. They hang up, cancel, decide, fork and delete, while the store
// fails from time to time. Afterwards the server holds as many goroutines, open files and as much memory as after the first second.
func TestSoak(t *testing.T) {
	db := must.Get(sqlite.Open(filepath.Join(t.TempDir(), "soak.db")))
	t.Cleanup(func() { _ = db.Close() })
	store := &unwritable{Store: db}
	d := newDesk(t)
	s := serveOn(t, d, store)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	background, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { // thoughts end now and then
		for n := 0; background.Err() == nil; n++ {
			select {
			case <-d.thinks:
			case <-background.Done():
			}
			if n%2 == 0 {
				select {
				case d.free <- struct{}{}:
				case <-time.After(10 * time.Millisecond):
				case <-background.Done():
				}
			}
		}
	}()

	var requests, refused atomic.Int64
	ask := func(ctx context.Context, method, path, body string, headers ...string) []byte {
		r, err := http.NewRequestWithContext(ctx, method, s.url+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		requests.Add(1)
		got, err := client.Do(r)
		if err != nil {
			return nil // the client has hung up
		}
		defer got.Body.Close()
		data, err := io.ReadAll(got.Body)
		switch {
		case got.StatusCode == http.StatusServiceUnavailable:
			refused.Add(1)
		case err == nil && got.StatusCode >= 500:
			t.Errorf("%s %s: %d %s", method, path, got.StatusCode, data)
		}
		return data
	}
	said := []string{"hello", "bill me", "fail", "make a file", "color", "ask", "ask twice", "think"}
	// act does one thing that a client may do.
	act := func(rnd *rand.Rand) {
		id := fmt.Sprintf("s%d", rnd.IntN(16))
		content := fmt.Sprintf(`{"content":%q}`, said[rnd.IntN(len(said))])
		ctx, hangUp := context.WithTimeout(t.Context(), time.Duration(1+rnd.IntN(200))*time.Millisecond)
		defer hangUp()
		switch rnd.IntN(12) {
		case 0, 1:
			ask(t.Context(), "POST", "/sessions", fmt.Sprintf(`{"id":%q,"content":%q}`, id, said[rnd.IntN(len(said))]))
		case 2, 3:
			ask(ctx, "POST", "/sessions/"+id+"/turns", content, "Prefer", "wait=1")
		case 4:
			ask(ctx, "POST", "/sessions/"+id+"/turns", content, "Accept", "text/event-stream")
		case 5:
			ask(ctx, "GET", "/sessions/"+id+"/events", "", "Accept", "text/event-stream")
		case 6:
			ask(t.Context(), "POST", "/sessions/"+id+"/forks", `{"at":1}`)
		case 7:
			ask(t.Context(), "DELETE", "/sessions/"+id, "")
		default:
			var list struct {
				Turns []struct {
					ID      string
					Pending []struct{ CallID string }
				}
			}
			_ = json.Unmarshal(ask(t.Context(), "GET", "/sessions/"+id+"/turns?limit=1", ""), &list)
			if len(list.Turns) == 0 {
				return
			}
			turn := list.Turns[0]
			path := "/sessions/" + id + "/turns/" + turn.ID
			switch rnd.IntN(4) {
			case 0:
				ask(t.Context(), "POST", path+"/cancel", "")
			case 1:
				ask(t.Context(), "POST", path+"/stop", "")
			case 2:
				ask(ctx, "POST", path+"/resume", "")
			default:
				for _, p := range turn.Pending {
					ask(t.Context(), "POST", path+"/decisions", fmt.Sprintf(`{"decisions":[{"callId":%q,"approved":%v}]}`, p.CallID, rnd.IntN(2) == 0))
				}
			}
		}
	}
	play := func(d time.Duration, seed uint64) {
		until := time.Now().Add(d)
		var clients sync.WaitGroup
		for n := range uint64(8) {
			clients.Go(func() {
				for rnd := rand.New(rand.NewPCG(seed, n)); time.Now().Before(until); {
					act(rnd)
				}
			})
		}
		for time.Now().Before(until) { // an outage of a twentieth of a second, twice a second
			store.full.Store(true)
			time.Sleep(50 * time.Millisecond)
			store.full.Store(false)
			time.Sleep(450 * time.Millisecond)
		}
		clients.Wait()
		for { // all sessions are deleted; those with a turn under way are canceled first
			var list struct{ Sessions []struct{ ID, Turn string } }
			require.NoError(t, json.Unmarshal(ask(t.Context(), "GET", "/sessions?limit=200", ""), &list))
			if len(list.Sessions) == 0 {
				break
			}
			for _, one := range list.Sessions {
				ask(t.Context(), "POST", "/sessions/"+one.ID+"/turns/"+one.Turn+"/cancel", "")
				ask(t.Context(), "DELETE", "/sessions/"+one.ID, "")
			}
		}
		client.CloseIdleConnections()
	}
	play(time.Second, 0)
	var before, after held
	require.Eventually(t, func() bool { // connections and turns need a moment to end
		last := before
		before = heldNow()
		return before.goroutines == last.goroutines && before.files == last.files
	}, time.Minute, time.Second/2)
	play(*soakTime, 1)
	done := func() bool {
		// A turn drops what others have kept for half a minute, for followers that come back.
		ask(t.Context(), "POST", "/sessions", `{"id":"last","content":"hello"}`)
		ask(t.Context(), "DELETE", "/sessions/last", "")
		client.CloseIdleConnections()
		after = heldNow()
		const caches = 4 << 20 // of a thousand sessions, which were empty before
		return after.goroutines <= before.goroutines+2 && after.files <= before.files+4 && after.heap <= before.heap+caches
	}
	if !assert.Eventually(t, done, time.Minute, time.Second/2) {
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Fatalf("before: %+v, after: %+v\n%s", before, after, stacks.String())
	}
	t.Logf("%d requests, %d while the store failed; before: %+v, after: %+v", requests.Load(), refused.Load(), before, after)
}
