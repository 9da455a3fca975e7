package wire

import (
	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

func toHost(h shared.HostInfo) *pb.NegotiateRequest {
	return &pb.NegotiateRequest{Version: h.Version, Build: h.Build, HandleVersions: h.HandleVersions}
}

func fromHost(m *pb.NegotiateRequest) shared.HostInfo {
	return shared.HostInfo{Version: m.GetVersion(), Build: m.GetBuild(), HandleVersions: m.GetHandleVersions()}
}

func toDescription(b *breach, d shared.Description) *pb.NegotiateResponse {
	return &pb.NegotiateResponse{
		Name: d.Name, Version: d.Version, Build: d.Build, Services: d.Services, HandleVersion: d.HandleVersion,
		Capabilities: toCapabilities(b, d.Capabilities), Fits: d.Fits, Reason: text(d.Reason),
	}
}

func fromDescription(b *breach, m *pb.NegotiateResponse) shared.Description {
	return shared.Description{
		Name: m.GetName(), Version: m.GetVersion(), Build: m.GetBuild(), Services: m.GetServices(),
		HandleVersion: m.GetHandleVersion(), Capabilities: fromCapabilities(b, m.GetCapabilities()),
		Fits: m.GetFits(), Reason: m.GetReason(),
	}
}

func toConfiguration(c shared.Configuration) *pb.ConfigureRequest {
	return &pb.ConfigureRequest{
		Instance: c.Instance, Owner: c.Owner, Settings: c.Settings, Secrets: toSecrets(c.Secrets),
		Environment: toVariables(c.Environment), Refs: each(c.Refs, toBytes[string]),
	}
}

func fromConfiguration(b *breach, m *pb.ConfigureRequest) shared.Configuration {
	return shared.Configuration{
		Instance: m.GetInstance(), Owner: m.GetOwner(), Settings: m.GetSettings(),
		Secrets: fromSecrets(b, m.GetSecrets()), Environment: fromVariables(b, m.GetEnvironment()),
		Refs: each(m.GetRefs(), fromBytes),
	}
}

func toConfigured(b *breach, c shared.Configured) *pb.ConfigureResponse {
	return &pb.ConfigureResponse{
		Capabilities: toCapabilities(b, c.Capabilities),
		Pins: each(c.Pins, func(p shared.Pin) *pb.Pin {
			return &pb.Pin{Ref: []byte(p.Ref), Commit: p.Commit, Notices: toNotices(b, p.Notices)}
		}),
		Notices: toNotices(b, c.Notices), Source: []byte(c.Source),
	}
}

func fromConfigured(b *breach, m *pb.ConfigureResponse) shared.Configured {
	return shared.Configured{
		Capabilities: fromCapabilities(b, m.GetCapabilities()),
		Pins: each(m.GetPins(), func(p *pb.Pin) shared.Pin {
			return shared.Pin{Ref: string(p.GetRef()), Commit: p.GetCommit(), Notices: fromNotices(b, p.GetNotices())}
		}),
		Notices: fromNotices(b, m.GetNotices()), Source: string(m.GetSource()),
	}
}

func toCapabilities(b *breach, c shared.Capabilities) *pb.Capabilities {
	m := &pb.Capabilities{
		Provisions: c.Provisions, ColdStart: toEnum(b, coldStartTable(), c.ColdStart), MeasuredColdStart: toDuration(c.MeasuredColdStart),
		Streaming: c.Streaming, Transfer: toEnum(b, transferTable(), c.Transfer), ImageBuild: c.ImageBuild,
		HostsPromptCells: c.HostsPromptCells, StartsFromPatch: c.StartsFromPatch,
	}
	for _, d := range shared.Dimensions() {
		s, ok := c.Limits[d]
		if !ok {
			continue
		}
		m.Limits = append(m.Limits, &pb.Support{
			Dimension: toEnum(b, dimensionTable(), d), Level: toEnum(b, levelTable(), s.Level),
			Mechanism: text(s.Mechanism), Reason: text(s.Reason),
		})
	}
	if len(m.Limits) != len(c.Limits) {
		b.add("the capabilities speak of a dimension that the contract does not know")
	}
	return m
}

func fromCapabilities(b *breach, m *pb.Capabilities) shared.Capabilities {
	b.missing(m == nil, "capabilities")
	c := shared.Capabilities{
		Provisions:        m.GetProvisions(),
		ColdStart:         fromEnum(b, coldStartTable(), m.GetColdStart()),
		MeasuredColdStart: fromDuration(b, m.GetMeasuredColdStart()),
		Streaming:         m.GetStreaming(), Transfer: fromEnum(b, transferTable(), m.GetTransfer()),
		ImageBuild: m.GetImageBuild(), HostsPromptCells: m.GetHostsPromptCells(), StartsFromPatch: m.GetStartsFromPatch(),
	}
	for _, s := range m.GetLimits() {
		if c.Limits == nil {
			c.Limits = map[shared.Dimension]shared.Support{}
		}
		d := fromEnum(b, dimensionTable(), s.GetDimension())
		if _, twice := c.Limits[d]; twice {
			b.add("the dimension %q is there twice", d)
		}
		c.Limits[d] = shared.Support{
			Level: fromEnum(b, levelTable(), s.GetLevel()), Mechanism: s.GetMechanism(), Reason: s.GetReason(),
		}
	}
	return c
}

func toDrainReport(r shared.DrainReport) *pb.DrainResponse {
	return &pb.DrainResponse{Ended: r.Ended, Leaked: r.Leaked}
}

func fromDrainReport(m *pb.DrainResponse) shared.DrainReport {
	return shared.DrainReport{Ended: m.GetEnded(), Leaked: m.GetLeaked()}
}
