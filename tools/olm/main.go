// Command olmcheck holds a bundle against operator-framework's validators, and a catalogue against those of `opm validate`.
//
//	olmcheck BUNDLE CATALOG
//
// It prints a line for each error and each warning. It exits with 1 if there is an error.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	"github.com/operator-framework/operator-registry/pkg/lib/config"
)

// All that look at files alone: another one, of architectures, fetches the images.
var validators = validator.Validators{
	validation.ClusterServiceVersionValidator,
	validation.CustomResourceDefinitionValidator,
	validation.BundleValidator,
	validation.OperatorHubV2Validator,
	validation.StandardCategoriesValidator,
	validation.StandardCapabilitiesValidator,
	validation.ObjectValidator,
	validation.AlphaDeprecatedAPIsValidator,
	validation.GoodPracticesValidator,
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "write: olmcheck BUNDLE CATALOG")
		os.Exit(2)
	}
	right := checkBundle(os.Args[1])
	if err := config.Validate(context.Background(), os.DirFS(os.Args[2])); err != nil {
		fmt.Printf("error: catalogue: %v\n", err)
		right = false
	}
	if !right {
		os.Exit(1)
	}
}

// checkBundle prints what the validators find in the directory of a bundle, and returns true without an error.
func checkBundle(directory string) bool {
	bundle, err := manifests.GetBundleFromDir(directory)
	if err != nil {
		fmt.Printf("error: bundle: %v\n", err)
		return false
	}
	right := true
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, each := range result.Errors {
			fmt.Printf("error: %s: %s\n", result.Name, each.Error())
			right = false
		}
		for _, each := range result.Warnings {
			fmt.Printf("warning: %s: %s\n", result.Name, each.Error())
		}
	}
	return right
}
