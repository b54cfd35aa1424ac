package push

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

const hookURL = "https://hooks.example.com/a2a?secret=QUERY"

// deps are what a sender needs besides options.
type deps struct {
	log    *slog.Logger
	legacy Encoder
}

func newSender(t testing.TB, opts Options, with ...deps) *Sender {
	d := append(with, deps{log: slog.New(slog.NewTextHandler(t.Output(), nil))})[0]
	p := must.Get(New(opts, d.log, d.legacy))
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Close(ctx)
	})
	return p
}

func aTask(caller string) Task {
	return Task{Tenant: "eu", Caller: caller, Task: "turn.context"}
}

func TestPushConfigs(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) Store{
		"memory": func(*testing.T) Store { return nil },
		"file": func(t *testing.T) Store {
			return must.Get(NewFile(filepath.Join(t.TempDir(), "push.json")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSender(t, Options{Store: store(t)})
			ctx, mine, others := t.Context(), aTask("alice"), aTask("bob")
			require.False(t, p.Follows(mine))

			in := &sdk.PushConfig{Tenant: "wrong", TaskID: "wrong", URL: hookURL, Token: "TOKEN", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "CREDENTIALS"}}
			saved := must.Get(p.Save(ctx, mine, "1.0", in))
			require.NotEmpty(t, saved.ID)
			want := &sdk.PushConfig{Tenant: "eu", TaskID: "turn.context", ID: saved.ID, URL: hookURL, Token: "TOKEN", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "CREDENTIALS"}}
			require.Equal(t, want, saved)
			require.Empty(t, in.ID, "the request is not changed")
			saved.Auth.Credentials, in.Auth.Credentials = "changed", "changed" // what was given away is a copy
			got := must.Get(p.Get(ctx, mine, saved.ID))
			require.Equal(t, want, got)

			require.True(t, p.Follows(mine))
			require.False(t, p.Follows(others))
			for _, who := range []Task{others, {Tenant: "", Caller: "alice", Task: mine.Task}, {Tenant: "eu", Caller: "alice", Task: "other"}} {
				require.ErrorIs(t, must.Err(p.Get(ctx, who, saved.ID)), sdk.ErrTaskNotFound)
				require.NoError(t, p.Delete(ctx, who, saved.ID))
				list := must.Get(p.List(ctx, who, 0, ""))
				require.NotNil(t, list.Configs)
				require.Empty(t, list.Configs)
			}
			require.ErrorIs(t, must.Err(p.Get(ctx, mine, "other")), sdk.ErrTaskNotFound)

			// The same id again replaces; another id is another config.
			must.Get(p.Save(ctx, mine, "", &sdk.PushConfig{ID: saved.ID, URL: "https://other.example.com"}))
			must.Get(p.Save(ctx, mine, "", &sdk.PushConfig{ID: "second", URL: hookURL}))
			list := must.Get(p.List(ctx, mine, 0, ""))
			require.Len(t, list.Configs, 2)
			require.Empty(t, list.NextPageToken)
			require.Equal(t, []string{saved.ID, "second"}, []string{list.Configs[0].ID, list.Configs[1].ID})
			require.Equal(t, "https://other.example.com", list.Configs[0].URL)
			require.Nil(t, list.Configs[0].Auth)

			for range 2 {
				require.NoError(t, p.Delete(ctx, mine, saved.ID))
				require.ErrorIs(t, must.Err(p.Get(ctx, mine, saved.ID)), sdk.ErrTaskNotFound)
			}
			require.True(t, p.Follows(mine))
			require.NoError(t, p.Delete(ctx, mine, "second"))
			require.False(t, p.Follows(mine))
			require.Empty(t, p.tasks)
			require.Empty(t, p.callers)
		})
	}
}

func TestPushConfigPages(t *testing.T) {
	p := newSender(t, Options{perTask: 200})
	now := time.Unix(1, 0)
	p.now = func() time.Time { return now }
	task := aTask("alice")
	for i := range 120 {
		if i%3 == 0 {
			now = now.Add(time.Nanosecond) // some are of the same time
		}
		must.Get(p.Save(t.Context(), task, "", &sdk.PushConfig{ID: fmt.Sprintf("c%03d", i), URL: hookURL}))
	}
	for size, pages := range map[int]int{0: 3, 1: 120, 7: 18, 60: 2, 120: 2, 1000: 2} {
		var ids []string
		token, n := "", 0
		for {
			res := must.Get(p.List(t.Context(), task, size, token))
			n++
			for _, c := range res.Configs {
				ids = append(ids, c.ID)
			}
			if token = res.NextPageToken; token == "" {
				break
			}
		}
		require.Equal(t, pages, n, size)
		require.Len(t, ids, 120)
		for i, id := range ids {
			require.Equal(t, fmt.Sprintf("c%03d", i), id)
		}
	}
	// A page goes on where it was, even if that config is gone.
	res := must.Get(p.List(t.Context(), task, 10, ""))
	require.NoError(t, p.Delete(t.Context(), task, "c009"))
	res = must.Get(p.List(t.Context(), task, 1, res.NextPageToken))
	require.Equal(t, "c010", res.Configs[0].ID)
	for _, token := range []string{"x", "!!", "eA", "MQ"} {
		require.ErrorIs(t, must.Err(p.List(t.Context(), task, 10, token)), sdk.ErrInvalidParams)
	}
	require.ErrorIs(t, must.Err(p.List(t.Context(), task, -1, "")), sdk.ErrInvalidParams)
}

func TestPushConfigsThatAreRefused(t *testing.T) {
	p := newSender(t, Options{AllowHost: func(h string) bool { return h != "refused.example.com" }})
	for what, c := range map[string]*sdk.PushConfig{
		"nothing":       nil,
		"no url":        {},
		"no host":       {URL: "https:///x"},
		"only a port":   {URL: "https://:443/"},
		"relative":      {URL: "/hook?secret=QUERY"},
		"opaque":        {URL: "https:hooks.example.com"},
		"nonsense":      {URL: "https://hooks example.com/%zz?secret=QUERY"},
		"http":          {URL: "http://hooks.example.com/?secret=QUERY"},
		"file":          {URL: "file:///etc/passwd"},
		"user":          {URL: "https://me:CREDENTIALS@hooks.example.com/"},
		"host":          {URL: "https://refused.example.com/"},
		"long":          {URL: "https://hooks.example.com/" + strings.Repeat("x", 4000)},
		"localhost":     {URL: "https://LocalHost:8443/"},
		"below it":      {URL: "https://a.localhost./"},
		"loopback":      {URL: "https://127.0.0.1/"},
		"loopback 6":    {URL: "https://[::1]/"},
		"mapped":        {URL: "https://[::ffff:127.0.0.1]/"},
		"private":       {URL: "https://10.1.2.3/"},
		"link-local":    {URL: "https://[fe80::1%25eth0]/"},
		"metadata":      {URL: "https://169.254.169.254/latest"},
		"unspecified":   {URL: "https://0.0.0.0/"},
		"token":         {URL: hookURL, Token: "TOKEN\r\nX-Evil: 1"},
		"long token":    {URL: hookURL, Token: strings.Repeat("x", 10_000)},
		"scheme":        {URL: hookURL, Auth: &sdk.PushAuthInfo{Scheme: "Bearer x", Credentials: "CREDENTIALS"}},
		"no scheme":     {URL: hookURL, Auth: &sdk.PushAuthInfo{Credentials: "CREDENTIALS"}},
		"credentials":   {URL: hookURL, Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "CREDENTIALS\n"}},
		"long id":       {URL: hookURL, ID: strings.Repeat("x", 300)},
		"control in id": {URL: hookURL, ID: "a\x00"},
	} {
		_, err := p.Save(t.Context(), aTask("alice"), "", c)
		require.ErrorIs(t, err, sdk.ErrInvalidParams, what)
		for _, secret := range []string{"TOKEN", "CREDENTIALS", "QUERY"} {
			require.NotContains(t, err.Error(), secret, what)
		}
	}
	_, err := p.Save(t.Context(), aTask("alice"), "0.3", &sdk.PushConfig{URL: hookURL})
	require.ErrorIs(t, err, sdk.ErrPushNotificationNotSupported)
	require.False(t, p.Follows(aTask("alice")))

	p = newSender(t, Options{AllowHTTP: true, AllowLoopback: true})
	for _, u := range []string{"http://127.0.0.1:1/", "http://localhost:1", "https://[::1]", "http://hooks.example.com"} {
		_, err := p.Save(t.Context(), aTask("alice"), "", &sdk.PushConfig{URL: u})
		require.NoError(t, err, u)
	}
	_, err = p.Save(t.Context(), aTask("alice"), "", &sdk.PushConfig{URL: "http://10.0.0.1/"})
	require.ErrorIs(t, err, sdk.ErrInvalidParams)

	require.Error(t, must.Err(New(Options{GiveUpAfter: -1}, nil, nil)))
}

func TestPushConfigsAreFew(t *testing.T) {
	p := newSender(t, Options{perTask: 2, perCaller: 5})
	save := func(caller, task, id string) error {
		_, err := p.Save(t.Context(), Task{Caller: caller, Task: sdk.TaskID(task)}, "", &sdk.PushConfig{ID: id, URL: hookURL})
		return err
	}
	require.NoError(t, save("alice", "1", "a"))
	require.NoError(t, save("alice", "1", "b"))
	require.ErrorIs(t, save("alice", "1", "c"), sdk.ErrInvalidParams)
	require.NoError(t, save("alice", "1", "b"), "a config can be replaced")
	require.NoError(t, save("alice", "2", "a"))
	require.NoError(t, save("alice", "2", "b"))
	require.NoError(t, save("alice", "3", "a"))
	require.ErrorIs(t, save("alice", "3", "b"), sdk.ErrInvalidParams)
	require.NoError(t, save("bob", "3", "b"), "others have room of their own")

	// What has done its work makes room.
	p.ended(p.find(Task{Caller: "alice", Task: "2"}, "a"))
	require.NoError(t, save("alice", "3", "b"))
	require.ErrorIs(t, must.Err(p.Get(t.Context(), Task{Caller: "alice", Task: "2"}, "a")), sdk.ErrTaskNotFound)
	require.ErrorIs(t, save("alice", "4", "a"), sdk.ErrInvalidParams)
}

func TestPushConfigsOfEndedTasksAreForgotten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "push.json")
	store := must.Get(NewFile(path))
	p := newSender(t, Options{retain: time.Hour, Store: store})
	now := time.Now()
	p.now = func() time.Time { return now }
	task := aTask("alice")
	for _, id := range []string{"a", "b"} {
		must.Get(p.Save(t.Context(), task, "", &sdk.PushConfig{ID: id, URL: hookURL}))
	}
	p.ended(p.find(task, "a"))
	now = now.Add(time.Hour)
	must.Get(p.Get(t.Context(), task, "a"))
	now = now.Add(time.Second)
	require.ErrorIs(t, must.Err(p.Get(t.Context(), task, "a")), sdk.ErrTaskNotFound)
	must.Get(p.Save(t.Context(), aTask("bob"), "", &sdk.PushConfig{URL: hookURL}))
	require.Len(t, p.tasks[task], 1)
	require.Len(t, store.records, 2)
	_, err := p.Get(t.Context(), task, "b")
	require.NoError(t, err, "a task that goes on keeps its configs")
}

// failingStore refuses changes.
type failingStore struct {
	Store
	err error
}

func (s *failingStore) Put(ctx context.Context, r Record) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Put(ctx, r)
}

func (s *failingStore) Delete(ctx context.Context, r Record) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Delete(ctx, r)
}

func TestPushStoreThatFails(t *testing.T) {
	file := must.Get(NewFile(filepath.Join(t.TempDir(), "push.json")))
	store := &failingStore{Store: file}
	p := newSender(t, Options{Store: store})
	task := aTask("alice")
	must.Get(p.Save(t.Context(), task, "", &sdk.PushConfig{ID: "a", URL: hookURL}))

	store.err = errors.New("disk full")
	_, err := p.Save(t.Context(), task, "", &sdk.PushConfig{ID: "b", URL: hookURL})
	require.ErrorIs(t, err, store.err)
	_, err = p.Get(t.Context(), task, "b")
	require.ErrorIs(t, err, sdk.ErrTaskNotFound, "what is not stored is not there")
	require.ErrorIs(t, p.Delete(t.Context(), task, "a"), store.err)
	must.Get(p.Get(t.Context(), task, "a"))
}

func TestPushFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "push.json")
	store := must.Get(NewFile(path))
	p := newSender(t, Options{Store: store}, deps{legacy: func(sdk.Event) (any, error) { return nil, nil }})
	task := aTask("alice")
	for _, id := range []string{"a", "b", "c"} {
		must.Get(p.Save(t.Context(), task, "0.3", &sdk.PushConfig{ID: id, URL: hookURL, Token: "TOKEN"}))
	}
	require.NoError(t, p.Delete(t.Context(), task, "b"))
	p.ended(p.find(task, "c"))
	info := must.Get(os.Stat(path))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left := must.Get(filepath.Glob(path + "*"))
	require.Equal(t, []string{path}, left, "no temporary file stays")

	again := must.Get(NewFile(path))
	p2 := newSender(t, Options{Store: again})
	want := must.Get(p.List(t.Context(), task, 0, ""))
	got := must.Get(p2.List(t.Context(), task, 0, ""))
	require.Equal(t, want, got)
	require.Equal(t, p.find(task, "a").current(), p2.find(task, "a").current())
	require.False(t, p2.find(task, "c").open())

	require.NoError(t, os.Chmod(path, 0o640))
	require.ErrorContains(t, must.Err(NewFile(path)), "0600")
	require.NoError(t, os.Chmod(path, 0o600))
	for _, bad := range []string{"", "{", `{"version":2}`, `{"version":1,"configs":{"token":"TOKEN"}}`} {
		require.NoError(t, os.WriteFile(path, []byte(bad), 0o600))
		_, err := NewFile(path)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "TOKEN")
	}
	require.ErrorIs(t, must.Err(NewFile(filepath.Join(t.TempDir(), "missing", "push.json"))), os.ErrNotExist)

	// A write that fails changes nothing.
	dir := t.TempDir()
	store = must.Get(NewFile(filepath.Join(dir, "push.json")))
	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, store.Put(t.Context(), Record{}))
	require.Empty(t, store.records)
	require.NoError(t, store.Delete(t.Context(), Record{}))
}

func TestPushFileIsSafeForConcurrentUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "push.json")
	store := must.Get(NewFile(path))
	p := newSender(t, Options{Store: store})
	// Whoever reads the file at any time reads a whole one.
	stop, read := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				read <- nil
				return
			default:
			}
			if _, err := NewFile(path); err != nil {
				read <- err
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			task := aTask(fmt.Sprint(i))
			for j := range 5 {
				id := fmt.Sprint(j)
				_, err := p.Save(t.Context(), task, "", &sdk.PushConfig{ID: id, URL: hookURL})
				if err == nil && j%2 == 0 {
					err = p.Delete(t.Context(), task, id)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	require.NoError(t, <-read)
	again := must.Get(NewFile(path))
	require.Len(t, again.records, 16)
}

func TestPushRecordsShowNoSecrets(t *testing.T) {
	r := Record{Caller: "alice", Config: sdk.PushConfig{ID: "a", TaskID: "t", URL: hookURL, Token: "TOKEN", Auth: &sdk.PushAuthInfo{Scheme: "Bearer", Credentials: "CREDENTIALS"}}}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "record", r)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "record", r)
	fmt.Fprintf(&b, "%v %+v %#v %s %q", r, r, r, r, r)
	for _, secret := range []string{"TOKEN", "CREDENTIALS", "QUERY"} {
		require.NotContains(t, b.String(), secret)
	}
	require.Contains(t, b.String(), "config a of task t")
}

// A caller who has as many configs as may be asks for one more: nothing of others' is
// looked at for that, however many they have and whatever is being done with them.
func TestFullCallerIsNobodyElsesWork(t *testing.T) {
	p := newSender(t, Options{perCaller: 2, perTask: 10})
	ctx := context.Background()
	now := time.Unix(1_000_000, 0)
	p.now = func() time.Time { return now }
	must.Get(p.Save(ctx, aTask("bob"), "", &sdk.PushConfig{ID: "bob's", URL: hookURL}))
	for _, id := range []string{"1", "2"} {
		must.Get(p.Save(ctx, aTask("alice"), "", &sdk.PushConfig{ID: id, URL: hookURL}))
	}
	busy := p.find(aTask("bob"), "bob's")
	busy.mu.Lock() // who waits for it waits for the end of the test
	_, err := p.Save(ctx, aTask("alice"), "", &sdk.PushConfig{ID: "3", URL: hookURL})
	busy.mu.Unlock()
	require.ErrorIs(t, err, sdk.ErrInvalidParams)
}

// All configs are looked through from time to time, and not at every save after a time in
// which none had to go.
func TestConfigsAreSweptFromTimeToTime(t *testing.T) {
	p := newSender(t, Options{retain: time.Hour})
	ctx := context.Background()
	now := time.Unix(1_000_000, 0)
	p.now = func() time.Time { return now }
	save := func(id string) {
		must.Get(p.Save(ctx, aTask("alice"), "", &sdk.PushConfig{ID: id, URL: hookURL}))
	}
	save("1")
	now = now.Add(20 * time.Minute)
	save("2")
	require.Equal(t, now, p.swept)
	swept := now
	now = now.Add(time.Minute)
	save("3")
	require.Equal(t, swept, p.swept)
}
