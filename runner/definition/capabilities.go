package definition

import (
	"github.com/zclconf/go-cty/cty"

	"cellharness/shared"
)

// capabilitiesValue shows capabilities to expressions, by their JSON names and with every dimension.
func capabilitiesValue(c shared.Capabilities) cty.Value {
	limits := map[string]cty.Value{}
	for _, d := range shared.Dimensions() {
		s := c.Support(d)
		limits[string(d)] = cty.ObjectVal(map[string]cty.Value{
			"level": cty.StringVal(s.Level.String()), "mechanism": cty.StringVal(s.Mechanism), "reason": cty.StringVal(s.Reason),
		})
	}
	return cty.ObjectVal(map[string]cty.Value{
		"provisions":             cty.BoolVal(c.Provisions),
		"cold_start":             cty.StringVal(string(c.ColdStart)),
		"measured_cold_start_ns": cty.NumberIntVal(int64(c.MeasuredColdStart)),
		"streaming":              cty.BoolVal(c.Streaming),
		"transfer":               cty.StringVal(string(c.Transfer)),
		"image_build":            cty.BoolVal(c.ImageBuild),
		"hosts_prompt_cells":     cty.BoolVal(c.HostsPromptCells),
		"starts_from_patch":      cty.BoolVal(c.StartsFromPatch),
		"limits":                 cty.ObjectVal(limits),
	})
}

func capabilitiesType() cty.Type { return capabilitiesValue(shared.Capabilities{}).Type() }
