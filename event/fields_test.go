package event

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// plan is a type of event that has no method fields.
type plan struct {
	Steps []string       `json:"steps"`
	Notes map[string]any `json:"notes,omitempty"`
	Of    *Usage         `json:"of,omitempty"`
}

func (*plan) EventType() string { return "plan" }
func (*plan) eventData()        {}

// A type that is in the list of those that are stored, and has no more than that, is read
// and written by package json.
func TestTypeWithoutFields(t *testing.T) {
	before := stored
	defer func() { stored = before }()
	last := &stored[len(stored)-1]
	last.name, last.empty = "plan", together[plan]
	e := &Event{Seq: 3, ID: "e3", Agent: "a", Data: &plan{Steps: []string{"one", "<two>"}, Notes: map[string]any{"n": 1.5}, Of: &Usage{Model: "m"}}}
	row, err := e.MarshalJSON()
	require.NoError(t, err)
	require.Equal(t, `{"seq":3,"id":"e3","type":"plan","agent":"a","steps":["one","<two>"],"notes":{"n":1.5},"of":{"inputTokens":0,"outputTokens":0,"model":"m"}}`, string(row))
	require.Nil(t, Plain(row))
	require.Equal(t, e, Decode(3, row))
	require.Equal(t, e, new(Decoder).Decode(3, row))
}

// Texts that occur again are one string, as far as they are short; what is kept of an
// event of many words is the name alone.
func TestDecoderSharesNames(t *testing.T) {
	var d Decoder
	one := d.Decode(1, []byte(`{"seq":1,"id":"a","runId":"2apq5jh80f1v","type":"text","agent":"billing","content":"hello"}`))
	two := d.Decode(2, []byte(`{"seq":2,"id":"b","runId":"2apq5jh80f1v","type":"text","agent":"billing","content":"hello"}`))
	require.Same(t, unsafe.StringData(one.RunID), unsafe.StringData(two.RunID))
	require.Same(t, unsafe.StringData(one.Agent), unsafe.StringData(two.Agent))
	require.NotSame(t, unsafe.StringData(one.Text()), unsafe.StringData(two.Text()))
	long := d.Decode(3, []byte(`{"seq":3,"id":"c","runId":"6qwsyq85h8e7","type":"text","agent":"billing","content":"`+strings.Repeat("word ", 1000)+`"}`))
	next := d.Decode(4, []byte(`{"seq":4,"id":"d","runId":"6qwsyq85h8e7","type":"text","agent":"billing","content":"hello"}`))
	require.Equal(t, long.RunID, next.RunID)
	begin := uintptr(unsafe.Pointer(unsafe.StringData(long.Text())))
	kept := uintptr(unsafe.Pointer(unsafe.StringData(next.RunID)))
	require.False(t, kept+64 > begin && kept < begin+6000, "a name keeps no words")
	require.Nil(t, d.known.data, "rows are not kept")
	for _, p := range d.known.places {
		require.Nil(t, p.to, "events are not kept")
	}
}
