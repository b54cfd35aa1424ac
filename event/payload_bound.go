package event

import "unicode/utf8"

// What JSON of others is in a payload: bound makes what is nested too deeply readable again, and canonical returns
// what the payload is after a way through its JSON form.

func (d *User) bound() (Data, *Notice) {
	if d != nil {
		if metadata, changed := boundValues(d.Metadata); changed {
			return &User{Content: d.Content, Metadata: metadata}, tooDeep("a value of the message's metadata")
		}
	}
	return d, nil
}

func (d *HarnessStart) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Input) {
		return d, nil
	}
	c := *d
	c.Input = rawText(d.Input)
	return &c, tooDeep("the input of " + d.AgentID)
}

func (d *ToolCall) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Input) {
		return d, nil
	}
	c := *d
	c.Input = rawObject(string(d.Input))
	return &c, tooDeep("the arguments of " + d.Name)
}

func (d *ToolProgress) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Content) {
		return d, nil
	}
	c := *d
	c.Content = rawText(d.Content)
	return &c, tooDeep("the progress of " + d.Name)
}

func (d *ToolResult) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Output) {
		return d, nil
	}
	c := *d
	c.Output = rawText(d.Output)
	return &c, tooDeep("the output of " + d.Name)
}

func (d *Relay) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Params) && !TooDeep(d.Schema) {
		return d, nil
	}
	c := *d
	c.Params, c.Schema = boundRaw(d.Params), boundRaw(d.Schema)
	return &c, tooDeep("what " + d.Tool + " asks")
}

func (d *RelayResolved) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Content) {
		return d, nil
	}
	c := *d
	c.Content = rawText(d.Content)
	return &c, tooDeep("the answer to a question")
}

func (d *Transfer) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Payload) && !TooDeep(d.RouteDecision) {
		return d, nil
	}
	c := *d
	c.Payload, c.RouteDecision = boundRaw(d.Payload), boundRaw(d.RouteDecision)
	return &c, tooDeep("what goes with the transfer to " + d.To)
}

func (d *State) bound() (Data, *Notice) {
	if d != nil {
		if delta, changed := boundValues(d.Delta); changed {
			return &State{Delta: delta}, tooDeep("a value of the state")
		}
	}
	return d, nil
}

func (d *HarnessEnd) bound() (Data, *Notice) {
	if d == nil || !TooDeep(d.Output) {
		return d, nil
	}
	c := *d
	c.Output = rawText(d.Output)
	return &c, tooDeep("the output of " + d.AgentID)
}

func (u *Unknown) bound() (Data, *Notice) {
	if u == nil || !TooDeep(u.Raw) {
		return u, nil
	}
	return &Unknown{Type: u.Type, Raw: rawObject(string(u.Raw))}, tooDeep("the event " + u.Type)
}

// A user's message was checked when its turn began.
func (d *User) canonical() (Data, bool) { return d, true }

func (d *HarnessStart) canonical() (Data, bool) {
	return d, d == nil || utf8.ValidString(d.AgentID) && isCompact(d.Input)
}

// Words become valid as their deltas did when they were shown.
func (d *Text) canonical() (Data, bool) {
	if d == nil || utf8.ValidString(d.Content) {
		return d, true
	}
	return &Text{Content: ValidText(d.Content)}, true
}

func (d *Reasoning) canonical() (Data, bool) {
	if d == nil || utf8.ValidString(d.Content) && utf8.ValidString(d.Sealed) {
		return d, true
	}
	return &Reasoning{Content: ValidText(d.Content), Sealed: ValidText(d.Sealed)}, true
}

func (d *ToolCall) canonical() (Data, bool) {
	return d, d == nil || utf8.ValidString(d.Name) && d.Input != nil && isCompact(d.Input) // nil is stored as null
}

func (d *ToolResult) canonical() (Data, bool) {
	return d, d == nil || utf8.ValidString(d.Name) && d.Output != nil && isCompact(d.Output) // nil is stored as null
}

func (d *Transfer) canonical() (Data, bool) {
	return d, d == nil || len(d.GraphPath) == 0 == (d.GraphPath == nil) && isCompact(d.RouteDecision) && isCompact(d.Payload) && validTexts(d.GraphPath) &&
		utf8.ValidString(d.From) && utf8.ValidString(d.To) && utf8.ValidString(d.Reason) && utf8.ValidString(d.ToolCallID) &&
		utf8.ValidString(string(d.Outcome)) && utf8.ValidString(d.TransferType)
}

func (d *Route) canonical() (Data, bool) {
	return d, d == nil || len(d.GraphPath) > 0 && d.Sentiment == nil && d.Failed == nil && validTexts(d.GraphPath) &&
		utf8.ValidString(d.From) && utf8.ValidString(d.To) && utf8.ValidString(d.Reason) && utf8.ValidString(d.IntentLabel)
}

func (d *HandoffStatus) canonical() (Data, bool) {
	return d, d == nil || len(d.GraphPath) == 0 == (d.GraphPath == nil) && validTexts(d.GraphPath) && validTexts([]string{
		d.HandoffID, d.Status, d.TargetAgent, d.Reason, d.RouteDecision, d.DeskEventID})
}

func (d *State) canonical() (Data, bool) {
	if d == nil {
		return d, true
	}
	delta := make(map[string]any, len(d.Delta))
	for key, value := range d.Delta {
		delta[ValidText(key)] = jsonValue(value)
	}
	return &State{Delta: delta}, true
}

func (d *File) canonical() (Data, bool) {
	return d, d == nil || validTexts([]string{d.Name, d.MediaType, d.Digest, d.URL, d.ToolCallID})
}

func (d *Usage) canonical() (Data, bool) { return d, d == nil || utf8.ValidString(d.Model) }

func (d *RemoteTask) canonical() (Data, bool) {
	return d, d == nil || d.Usage == nil && utf8.ValidString(d.TaskID) && utf8.ValidString(d.ContextID) &&
		utf8.ValidString(d.Status) && utf8.ValidString(d.URL)
}

func (d *HarnessEnd) canonical() (Data, bool) {
	return d, d == nil || utf8.ValidString(d.AgentID) && utf8.ValidString(string(d.FinishReason)) && utf8.ValidString(d.Target) && isCompact(d.Output)
}

func (d *State) plainNumbers() { plainNumbers(d.Delta, new(bool)) }
func (d *User) plainNumbers()  { plainNumbers(d.Metadata, new(bool)) }
