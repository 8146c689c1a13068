"""How the bundled drafter was made: prompts, target samples, distillation, evaluation."""
