package server_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// seqs are the positions of the events of a page.
func seqs(page map[string]any) (all []int) {
	for _, e := range page["events"].([]any) {
		all = append(all, int(e.(map[string]any)["seq"].(float64)))
	}
	return all
}

// Pages together are the log: forward and backward, with whole writes, from the words of a user.
func TestPages(t *testing.T) {
	s := newServed(t)
	for range 6 {
		s.say(t, "s", "file")
	}
	var log []*event.Event
	var all []int
	for e, err := range s.store.Load(t.Context(), key("ann", "s"), 0) {
		require.NoError(t, err)
		log, all = append(log, e), append(all, int(e.Seq))
	}
	for _, limit := range []int{1, 2, 7, 500} {
		for _, align := range []string{"", "&align=turn"} {
			var forward, backward []int
			for after := ""; ; {
				page := s.get(t, "ann", fmt.Sprintf("/sessions/s/events?limit=%d&after=%s", limit, after)).json(t)
				forward = append(forward, seqs(page)...)
				next, more := page["next"].(string)
				if !more {
					break
				}
				last := forward[len(forward)-1]
				require.False(t, log[last-1].Time.Equal(log[last].Time), "a write is cut at %d", last)
				require.Equal(t, fmt.Sprint(last+1), s.get(t, "ann", "/sessions/s/events?limit=1&after="+next).json(t)["previous"])
				after = next
			}
			require.Equal(t, all, forward)
			for before := "end"; ; {
				page := s.get(t, "ann", fmt.Sprintf("/sessions/s/events?limit=%d&before=%s%s", limit, before, align)).json(t)
				got := seqs(page)
				backward = append(got, backward...)
				if align != "" {
					require.Equal(t, event.TypeUser, log[got[0]-1].Type())
				}
				if before == "end" {
					require.Nil(t, page["next"])
				}
				previous, more := page["previous"].(string)
				if !more {
					break
				}
				before = previous
			}
			require.Equal(t, all, backward)
		}
	}
	second := seqs(s.get(t, "ann", "/sessions/s/events?limit=1&align=turn&after=12").json(t))
	require.Equal(t, event.TypeUser, log[second[0]-1].Type())
	require.LessOrEqual(t, second[0], 13)

	page := s.get(t, "ann", "/sessions/s/events?types=user,file&limit=3").json(t)
	require.Len(t, page["events"], 3)
	for _, e := range page["events"].([]any) {
		require.Contains(t, []any{"user", "file"}, e.(map[string]any)["type"])
	}
	// As lines, with the way to the next page.
	a := s.get(t, "ann", "/sessions/s/events?limit=5", "Accept", "application/x-ndjson")
	require.Equal(t, "application/x-ndjson", a.header.Get("Content-Type"))
	require.GreaterOrEqual(t, bytes.Count(a.body, []byte("\n")), 5)
	link := strings.TrimPrefix(strings.Split(a.header.Get("Link"), ">")[0], "<")
	b := s.get(t, "ann", link, "Accept", "application/x-ndjson")
	require.NotEmpty(t, b.body)

	// Those of a turn alone.
	turns := s.get(t, "ann", "/sessions/s/turns").json(t)["turns"].([]any)
	middle := turns[3].(map[string]any)
	got := seqs(s.get(t, "ann", middle["links"].(map[string]any)["events"].(string)).json(t))
	require.Equal(t, []int{int(middle["first"].(float64)), int(middle["seq"].(float64))}, []int{got[0], got[len(got)-1]})
	got = seqs(s.get(t, "ann", middle["links"].(map[string]any)["events"].(string)+"?before=end&limit=1").json(t))
	require.Equal(t, int(middle["seq"].(float64)), got[len(got)-1])
}

// Media and long texts are left out where a client wants that, and can be had whole.
func TestShapes(t *testing.T) {
	s := newServed(t)
	picture := bytes.Repeat([]byte("\x89PNG\r\n"), 300)
	long := strings.Repeat("ä\"", 200)
	body := must.Get(json.Marshal(map[string]any{"id": "s", "metadata": map[string]any{"note": long, "deep": []any{map[string]any{"content": long}}}, "content": []any{
		map[string]any{"type": "text", "text": long}, map[string]any{"type": "text", "text": "{[,\":"},
		map[string]any{"type": "image", "mediaType": "text/html", "name": "../a b.png", "data": picture},
		map[string]any{"type": "image", "mediaType": "image/png", "url": "https://example.com/" + strings.Repeat("x", 300)}}}))
	require.Equal(t, 200, s.do(t, "ann", "POST", "/sessions", string(body), "Prefer", "wait=60").status)
	first := func(query string) map[string]any {
		return s.get(t, "ann", "/sessions/s/events?limit=1&"+query).json(t)["events"].([]any)[0].(map[string]any)
	}
	whole := first("")
	parts := func(e map[string]any) []any { return e["content"].([]any) }
	require.Equal(t, base64.StdEncoding.EncodeToString(picture), parts(whole)[2].(map[string]any)["data"])

	omitted := first("media=omit")
	left := parts(omitted)[2].(map[string]any)["data"].(map[string]any)
	require.Equal(t, true, left["omitted"])
	require.EqualValues(t, len(picture), left["bytes"])
	require.Equal(t, long, parts(omitted)[0].(map[string]any)["text"])
	a := s.get(t, "ann", left["href"].(string))
	require.Equal(t, picture, a.body)
	require.Equal(t, "text/html", a.header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="a b.png"`, a.header.Get("Content-Disposition"))
	require.Contains(t, a.header.Get("Content-Security-Policy"), "sandbox")
	require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))

	clipped := first("clip=101")
	cut := parts(clipped)[0].(map[string]any)["text"].(map[string]any)
	require.EqualValues(t, len(long), cut["bytes"])
	require.True(t, strings.HasPrefix(long, cut["clipped"].(string)))
	require.Contains(t, []int{100, 101}, len(cut["clipped"].(string)), "no character is cut")
	require.Equal(t, whole, s.get(t, "ann", cut["href"].(string)).json(t))
	require.Equal(t, parts(whole)[1], parts(clipped)[1])
	require.NotNil(t, parts(clipped)[2].(map[string]any)["data"].(map[string]any)["omitted"])
	require.Equal(t, parts(whole)[3], parts(clipped)[3])
	require.NotNil(t, clipped["metadata"].(map[string]any)["note"].(map[string]any)["clipped"])
	require.NotNil(t, clipped["metadata"].(map[string]any)["deep"].([]any)[0].(map[string]any)["content"].(map[string]any)["clipped"])
	eve := s.get(t, "eve", "/sessions/s/events?limit=1&media=omit&user=ann").json(t)["events"].([]any)[0].(map[string]any)
	require.Equal(t, picture, s.get(t, "eve", parts(eve)[2].(map[string]any)["data"].(map[string]any)["href"].(string)).body)
}

// Files that agents made can be had, and nothing else of the store.
func TestFiles(t *testing.T) {
	s := newServed(t)
	s.say(t, "s", "file")
	files := s.get(t, "ann", "/sessions/s/files").json(t)["files"].([]any)
	require.Len(t, files, 1)
	f := files[0].(map[string]any)
	require.Equal(t, "report.html", f["name"])
	a := s.get(t, "ann", f["href"].(string))
	require.Equal(t, "<script>1</script>", string(a.body))
	require.Equal(t, "attachment; filename=report.html", a.header.Get("Content-Disposition"))
	require.Contains(t, a.header.Get("Content-Security-Policy"), "sandbox")
	s.say(t, "other", "hello")
	require.Equal(t, 404, s.get(t, "ann", strings.Replace(f["href"].(string), "/s/", "/other/", 1)).status)
	require.Equal(t, 404, s.get(t, "bob", f["href"].(string)).status)
}

// The document has each type of event with the members that the log has.
func TestOpenAPIEvents(t *testing.T) {
	schemas := theDocument().doc["components"].(map[string]any)["schemas"].(map[string]any)
	described := make(map[string]map[string]any)
	for _, ref := range schemas["Event"].(map[string]any)["anyOf"].([]any) {
		name := ref.(map[string]any)["$ref"].(string)
		of := schemas[name[strings.LastIndexByte(name, '/')+1:]].(map[string]any)["allOf"].([]any)[1].(map[string]any)["properties"].(map[string]any)
		if typ, ok := of["type"].(map[string]any)["const"].(string); ok {
			described[typ] = of
		}
	}
	for _, typ := range event.Types() {
		members := []string{"type"}
		for _, f := range reflect.VisibleFields(reflect.TypeOf(event.New(typ)).Elem()) {
			members = append(members, strings.Split(f.Tag.Get("json"), ",")[0])
		}
		var got []string
		for name := range described[typ] {
			got = append(got, name)
		}
		require.ElementsMatch(t, members, got, typ)
	}
	require.Len(t, described, len(event.Types()))
	for typ, data := range sessiontest.Payloads() {
		e := &event.Event{Seq: 1, ID: "e", Data: data}
		encoded := must.Get(e.MarshalJSON())
		require.NoError(t, theDocument().check(encoded, "components", "schemas", "Event"), typ)
	}
}
