package openaiapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/server/internal/responses"
)

type (
	wireResponse      = responses.Object
	wireItem          = responses.Item
	wireResponseEvent = responses.Event
)

// responded is what a client of the Responses API got.
type responded struct {
	Status   int
	Header   http.Header
	Error    *wireError
	Response *wireResponse // the last one
	Events   []*wireResponseEvent
}

// is requires the status. A failure prints the error, and what about says.
func (r *responded) is(t testing.TB, status int, about ...any) *responded {
	t.Helper()
	require.Equal(t, status, r.Status, "%v %+v", about, r.Error)
	return r
}

// refused requires an error with the status and the code.
func (r *responded) refused(t testing.TB, status int, code string) *responded {
	t.Helper()
	require.Equal(t, code, r.is(t, status).Error.Code)
	return r
}

// text is what all messages say.
func (r *responded) text() string { return textIn(r.Response) }

func textIn(r *wireResponse) string {
	var b strings.Builder
	for _, item := range r.Output {
		if item.Content != nil {
			for _, c := range *item.Content {
				b.WriteString(c.Text)
			}
		}
	}
	return b.String()
}

// types are those of the events.
func (r *responded) types() (all []string) {
	for _, ev := range r.Events {
		all = append(all, strings.TrimPrefix(ev.Type, "response."))
	}
	return all
}

func (w *world) respond(body map[string]any, changes ...change) *responded {
	w.Helper()
	return readResponded(w, w.post(context.Background(), "/responses", body, changes...))
}

// get reads a response again. A number that is negative asks for no stream.
func (w *world) get(id string, after int64, changes ...change) *responded {
	w.Helper()
	query := ""
	if after >= 0 {
		query = "?stream=true&starting_after=" + strconv.FormatInt(after, 10)
	}
	return w.request(http.MethodGet, "/responses/"+url.PathEscape(id)+query, changes...)
}

func (w *world) request(method, path string, changes ...change) *responded {
	w.Helper()
	r := httptest.NewRequest(method, "http://localhost/v1"+path, nil)
	r.Header.Set("Authorization", "Bearer secret")
	for _, c := range changes {
		c(r)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return readResponded(w, rec)
}

func readResponded(t testing.TB, rec *httptest.ResponseRecorder) *responded {
	t.Helper()
	out := &responded{Status: rec.Code, Header: rec.Header()}
	if rec.Code != http.StatusOK {
		failed := must.JSON[struct{ Error *wireError }](rec.Body.Bytes())
		require.NotNil(t, failed.Error, rec.Body)
		out.Error = failed.Error
		return out
	}
	if !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/event-stream") {
		out.Response = new(wireResponse)
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), out.Response), rec.Body)
		return out
	}
	out.Events = readEvents(t, rec.Body.String())
	for _, ev := range out.Events {
		if ev.Response != nil {
			out.Response = ev.Response
		}
	}
	return out
}

func readEvents(t testing.TB, body string) (all []*wireResponseEvent) {
	t.Helper()
	for frame := range strings.SplitSeq(body, "\n\n") {
		if frame == "" || strings.HasPrefix(frame, ":") {
			continue
		}
		name, data, ok := strings.Cut(strings.TrimPrefix(frame, "event: "), "\ndata: ")
		require.True(t, ok, frame)
		ev := new(wireResponseEvent)
		require.NoError(t, json.Unmarshal([]byte(data), ev), data)
		require.Equal(t, name, ev.Type)
		all = append(all, ev)
	}
	return all
}

// reader puts a stream together, as the clients do.
type reader struct {
	testing.TB
	last  int64
	items map[int]*wireItem
	order []string // ids of items, as they came
	texts map[string]string
	done  map[string]string // their status
	final *wireResponse
}

func newReader(t testing.TB) *reader {
	return &reader{TB: t, last: -1, items: map[int]*wireItem{}, texts: map[string]string{}, done: map[string]string{}}
}

// read takes in events, and checks that they follow each other as they must.
func (r *reader) read(events ...*wireResponseEvent) *reader {
	r.Helper()
	for _, ev := range events {
		if ev.Type == "arbor.event" || ev.Type == "error" {
			continue
		}
		require.Greater(r, ev.Number, r.last, ev.Type)
		r.last = ev.Number
		require.Nil(r, r.final, "nothing comes behind the end")
		switch ev.Type {
		case "response.created", "response.in_progress":
			require.Equal(r, "in_progress", ev.Response.Status)
			require.Empty(r, ev.Response.Output)
		case "response.output_item.added":
			require.Nil(r, r.items[*ev.OutputIndex], "two items at one place")
			require.Equal(r, len(r.order), *ev.OutputIndex, "items have no gaps")
			r.items[*ev.OutputIndex], r.order = ev.Item, append(r.order, ev.Item.ID)
		case "response.content_part.added":
			require.Equal(r, r.items[*ev.OutputIndex].ID, ev.ItemID)
		case "response.output_text.delta":
			require.Equal(r, r.items[*ev.OutputIndex].ID, ev.ItemID)
			require.NotEmpty(r, *ev.Delta)
			r.texts[ev.ItemID] += *ev.Delta
		case "response.output_text.done":
			require.Equal(r, r.texts[ev.ItemID], *ev.Text)
		case "response.content_part.done":
			require.Equal(r, r.texts[ev.ItemID], ev.Part.Text)
		case "response.output_item.done":
			require.Equal(r, r.items[*ev.OutputIndex].ID, ev.Item.ID)
			require.NotContains(r, r.done, ev.Item.ID, "done twice")
			if r.done[ev.Item.ID] = ev.Item.Status; ev.Item.Status == "completed" {
				require.Equal(r, r.texts[ev.Item.ID], (*ev.Item.Content)[0].Text)
			}
		default:
			require.Equal(r, "response."+ev.Response.Status, ev.Type)
			r.final = ev.Response
		}
	}
	return r
}

// whole checks that all items are done, and that those that hold are those of the response.
func (r *reader) whole() *reader {
	r.Helper()
	require.NotNil(r, r.final)
	var hold []string
	for _, id := range r.order {
		require.Contains(r, r.done, id)
		if r.done[id] != "incomplete" {
			hold = append(hold, id)
		}
	}
	ids := []string(nil)
	for _, item := range r.final.Output {
		ids = append(ids, item.ID)
		if item.Content != nil {
			require.Equal(r, r.texts[item.ID], (*item.Content)[0].Text)
		}
	}
	require.Equal(r, hold, ids)
	return r
}

// clone is another client that has the same.
func (r *reader) clone() *reader {
	c := newReader(r.TB)
	c.last, c.order, c.final = r.last, append([]string(nil), r.order...), r.final
	for k, v := range r.items {
		c.items[k] = v
	}
	for k, v := range r.texts {
		c.texts[k] = v
	}
	for k, v := range r.done {
		c.done[k] = v
	}
	return c
}

// resumed cuts a client off behind each event, and lets it come back: it has the same in the end. The other world
// may be that of another process, which has not seen what was taken back.
func (w *world) resumed(events []*wireResponseEvent, sees bool) {
	w.Helper()
	whole := newReader(w).read(events...).whole()
	id := whole.final.ID
	client := newReader(w)
	for _, ev := range events {
		client.read(ev)
		back := client.clone()
		rest := w.get(id, ev.Number).is(w, http.StatusOK)
		back.read(rest.Events...).whole()
		require.Equal(w, whole.final, back.final, "after %d", ev.Number)
		if sees {
			require.Equal(w, whole.texts, back.texts)
			require.Equal(w, whole.order, back.order)
			require.Equal(w, whole.done, back.done)
		}
	}
	again := w.get(id, 0)
	require.Equal(w, whole.final, again.Response)
	require.Equal(w, whole.final, w.get(id, -1).Response)
}

func eventsOf(events []*wireResponseEvent) (all []*event.Event) {
	for _, ev := range events {
		if ev.Event != nil {
			all = append(all, ev.Event)
		}
	}
	return all
}
