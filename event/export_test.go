package event

// Plain reads an event without package json, nil if its form is not plain.
func Plain(data []byte) *Event { return new(fields).event(data) }

// Slow reads an event with package json.
func Slow(data []byte) (*Event, error) {
	e := new(Event)
	return e, e.unmarshal(data)
}

// WritePlain writes an event that has a payload without package json, nil if it cannot.
func WritePlain(e *Event) []byte {
	out, err := e.appendEnvelope(nil)
	if f := (fields{out: out, writing: true}); err == nil && walk(&f, e.Data) && !f.odd {
		return append(f.out, '}')
	}
	return nil
}

// WriteSlow writes an event's payload with package json.
func WriteSlow(e *Event) ([]byte, error) {
	out, err := e.appendEnvelope(nil)
	if err != nil {
		return nil, err
	}
	return e.appendPayload(out)
}
