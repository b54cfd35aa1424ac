package pack

import "github.com/agentarbor/arbor/event"

// Payload appends a payload as the JSON of an event. The error is that of a payload without a JSON form.
func Payload(b []byte, d event.Data) ([]byte, error) {
	data, err := (&event.Event{Seq: 1, Data: d}).MarshalJSON()
	if err != nil {
		return b, err
	}
	return Text(b, data), nil
}

// PayloadOf reads a payload of a type; nil, if there is an empty text in its place.
func PayloadOf[T event.Data](r *Reader) (d T) {
	if text := r.Text(); text != "" {
		var ok bool
		if d, ok = event.Decode(1, []byte(text)).Data.(T); !ok {
			r.Fail()
		}
	}
	return d
}
