"""Small generated sets for every task but goals: learnt in a minute, with something in test that train lacks."""
