package wire

import (
	"encoding/hex"

	"cellharness/shared"
	pb "cellharness/shared/adapterpb"
)

func toLabels(l shared.Labels) *pb.Labels {
	return &pb.Labels{Owner: l.Owner, Run: l.Run, Instance: l.Instance, Cell: l.Cell, Attempt: l.Attempt}
}

func fromLabels(b *breach, m *pb.Labels) shared.Labels {
	b.missing(m == nil, "labels")
	return shared.Labels{
		Owner: m.GetOwner(), Run: m.GetRun(), Instance: m.GetInstance(), Cell: m.GetCell(), Attempt: m.GetAttempt(),
	}
}

func toContent(c *shared.Content) *pb.Content {
	if c == nil {
		return nil
	}
	return &pb.Content{SizeBytes: c.Size, Sha256: c.SHA256}
}

// fromContent returns the announcement alone; the spool adds how to read it.
func fromContent(b *breach, m *pb.Content) *shared.Content {
	if m == nil {
		return nil
	}
	if m.GetSizeBytes() < 0 {
		b.add("a content has %d bytes", m.GetSizeBytes())
	}
	if _, err := hex.DecodeString(m.GetSha256()); err != nil || len(m.GetSha256()) != 64 {
		b.add("%q is not the SHA-256 of a content in hex digits", m.GetSha256())
	}
	return &shared.Content{Size: m.GetSizeBytes(), SHA256: m.GetSha256()}
}

func toProvisionSpec(s shared.ProvisionSpec) *pb.ProvisionStart {
	return &pb.ProvisionStart{
		Lease: s.Lease, Labels: toLabels(s.Labels), Ref: []byte(s.Ref), Base: s.Base, Patch: toContent(s.Patch),
		Lifetime: toDuration(s.Lifetime),
	}
}

func fromProvisionSpec(b *breach, m *pb.ProvisionStart) shared.ProvisionSpec {
	return shared.ProvisionSpec{
		Lease: m.GetLease(), Labels: fromLabels(b, m.GetLabels()), Ref: string(m.GetRef()), Base: m.GetBase(),
		Patch: fromContent(b, m.GetPatch()), Lifetime: fromDuration(b, m.GetLifetime()),
	}
}

func toProvisioned(b *breach, p shared.Provisioned) *pb.ProvisionResponse {
	return &pb.ProvisionResponse{Handle: toHandle(p.Handle), BaseSha: p.BaseSHA, Notices: toNotices(b, p.Notices)}
}

func fromProvisioned(b *breach, m *pb.ProvisionResponse) shared.Provisioned {
	return shared.Provisioned{
		Handle: fromHandle(b, m.GetHandle()), BaseSHA: m.GetBaseSha(), Notices: fromNotices(b, m.GetNotices()),
	}
}

func toHandle(h shared.Handle) *pb.Handle {
	return &pb.Handle{
		Adapter: h.Adapter, Instance: h.Instance, Version: h.Version, Lease: h.Lease, Resource: []byte(h.Resource),
		Root: []byte(h.Root), Base: h.Base, State: h.State,
	}
}

func fromHandle(b *breach, m *pb.Handle) shared.Handle {
	b.missing(m == nil, "the handle")
	return shared.Handle{
		Adapter: m.GetAdapter(), Instance: m.GetInstance(), Version: m.GetVersion(), Lease: m.GetLease(),
		Resource: string(m.GetResource()), Root: string(m.GetRoot()), Base: m.GetBase(), State: m.GetState(),
	}
}

func toFound(f shared.Found) *pb.FindResponse {
	return &pb.FindResponse{Handle: toHandle(f.Handle), Labels: toLabels(f.Labels), Created: toTime(f.Created)}
}

func fromFound(b *breach, m *pb.FindResponse) shared.Found {
	return shared.Found{
		Handle: fromHandle(b, m.GetHandle()), Labels: fromLabels(b, m.GetLabels()), Created: fromTime(b, m.GetCreated()),
	}
}

func toTeardownReport(b *breach, r shared.TeardownReport) *pb.TeardownResponse {
	return &pb.TeardownResponse{Resources: each(r.Resources, func(r shared.ResourceReport) *pb.ResourceReport {
		return &pb.ResourceReport{
			Kind: text(r.Kind), Name: []byte(r.Name), State: toEnum(b, resourceStateTable(), r.State), Detail: text(r.Detail),
		}
	})}
}

func fromTeardownReport(b *breach, m *pb.TeardownResponse) shared.TeardownReport {
	return shared.TeardownReport{Resources: each(m.GetResources(), func(m *pb.ResourceReport) shared.ResourceReport {
		return shared.ResourceReport{
			Kind: m.GetKind(), Name: string(m.GetName()), State: fromEnum(b, resourceStateTable(), m.GetState()),
			Detail: m.GetDetail(),
		}
	})}
}
